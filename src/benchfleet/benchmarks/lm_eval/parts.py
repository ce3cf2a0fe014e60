"""The lm-eval tasks of one cell: each takes a range of its samples, and their scores are one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from benchfleet.benchmarks import bootstrap
from benchfleet.benchmarks.base import Record, Score, Session
from benchfleet.domain.lm_eval_layout import TASK_METRICS
from benchfleet.domain.question_draws import draw_id, seed_of_draw

ContextEnd = Callable[[Mapping[str, Any], str], int]
"""Where the context of a document ends in its prompt; raises ValueError where it is not there."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One task of lm-eval in a cell."""

    task: str  # lm-eval's name
    label: str = ""  # in the scores of a cell with several
    context_end: ContextEnd | None = None  # asked apart where given
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of tasks that make their data


def after_column(name: str) -> ContextEnd:
    """The context ends where the text of this column ends."""

    def end(doc: Mapping[str, Any], text: str) -> int:
        if name not in doc:
            raise ValueError(f"the data have no column {name!r}; they have {', '.join(doc)}")
        for column in (str(doc[name]), str(doc[name]).strip()):
            if (start := text.rfind(column)) >= 0:
                return start + len(column)
        raise ValueError(f"a prompt does not hold the text of its column {name!r}")

    return end


def whole_text(doc: Mapping[str, Any], text: str) -> int:
    """All of the prompt is the context."""
    return len(text)


def before_last(*marks: str) -> ContextEnd:
    """The context ends before the last of these marks."""

    def end(doc: Mapping[str, Any], text: str) -> int:
        position = max(text.rfind(mark) for mark in marks)
        if position < 0:
            raise ValueError(f"a prompt holds none of {', '.join(map(repr, marks))}")
        return position

    return end


class PartSession(Session, Protocol):
    """A session whose samples are those of one task, in one of its draws."""

    documents: range  # that it asks, of those of the task
    draw: int  # 0 for the first answer to each question

    @property
    def prompt_seed(self) -> int:
        """The seed of the adapter's answers."""
        ...


class _PartSession:
    """Its samples are those of the whole session from `first` on."""

    def __init__(self, session: Session, first: int, documents: range, draw: int) -> None:
        self._session, self._first, self.draw = session, first, draw
        self.documents = documents
        self._draws = session.samples_per_question
        self.recorded = [
            # Answers of unfinished documents are matched by content.
            record if record.index < 0 else self._own(record)
            for record in session.recorded
            if (record.index < 0 and self._draws == 1)
            or (
                record.index // self._draws - first in documents
                and record.index % self._draws == draw
            )
        ]

    @property
    def prompt_seed(self) -> int:
        seed = int(self._session.generation.get("seed", self._session.seed))
        return seed_of_draw(seed, self.draw)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def record(self, record: Record) -> None:
        if self._draws > 1 and record.index >= 0:
            question = f"{self._first}.{record.id}" if self._first else record.id
            id = draw_id(record.id, self.draw)
            record = replace(record, id=id, question=question, draw=self.draw)
        index = record.index
        if index >= 0:
            index = (index + self._first) * self._draws + self.draw
        self._session.record(replace(record, index=index))

    def _own(self, record: Record) -> Record:
        index = record.index // self._draws - self._first
        id = record.id.rpartition("~")[0] if self.draw else record.id
        return replace(record, index=index, id=id)


def part_session(session: Session, first: int, documents: range, draw: int = 0) -> PartSession:
    """The session of one task, whose documents are the cell's questions from `first` on. It asks
    for one answer to each of `documents`."""
    return cast(PartSession, _PartSession(session, first, documents, draw))


def interleaved(draws: Sequence[Score]) -> Score:
    """The score of all draws of a task, question by question."""
    if len(draws) == 1:
        return draws[0]
    whole = all(draw.per_sample for draw in draws)
    tasks = {
        name: math.fsum(draw.tasks[name] for draw in draws) / len(draws)
        for name in draws[0].tasks
        if all(name in draw.tasks for draw in draws)
    }
    parsed = all(draw.parsed for draw in draws)
    facts = [  # the errors are those of one draw
        {name: value for name, value in one.items() if name != "stderr"}
        for one in draws[0].summary.get(TASK_METRICS, ())
    ]
    return replace(
        draws[0],
        summary={**draws[0].summary, TASK_METRICS: facts},
        overall=math.fsum(draw.overall for draw in draws) / len(draws),
        per_sample=[v for some in zip(*(d.per_sample for d in draws), strict=True) for v in some]
        if whole
        else (),
        parsed=[v for some in zip(*(d.parsed for d in draws), strict=True) for v in some]
        if parsed
        else (),
        tasks=tasks,
        unparsed=sorted(n * len(draws) + k for k, d in enumerate(draws) for n in d.unparsed),
    )


def combined(parts: Sequence[Part], scores: Sequence[Score], weights: Sequence[int]) -> Score:
    """The score of a cell: the weighted mean of its tasks'."""
    if len(scores) == 1:
        return scores[0]
    weighted = [weight * score.overall for weight, score in zip(weights, scores, strict=True)]
    tasks = {part.label: score.overall for part, score in zip(parts, scores, strict=True)}
    for part, score in zip(parts, scores, strict=True):
        tasks |= {f"{part.label} {name}": value for name, value in score.tasks.items()}
    whole = all(score.per_sample for score in scores)
    starts = [sum(len(one.per_sample) for one in scores[:n]) for n in range(len(scores))]
    parsed = [text for one in scores for text in one.parsed] if whole else []
    return Score(
        parsed=parsed if len(parsed) == sum(len(one.per_sample) for one in scores) else (),
        unparsed=[n + s for s, one in zip(starts, scores, strict=True) for n in one.unparsed]
        if whole
        else (),
        overall=math.fsum(weighted) / sum(weights),
        per_sample=[value for score in scores for value in score.per_sample] if whole else (),
        tasks=tasks,
        summary={
            "metric": ", ".join(dict.fromkeys(str(score.summary["metric"]) for score in scores)),
            "lm_eval": scores[0].summary["lm_eval"],
            "tasks": {part.label: score.summary for part, score in zip(parts, scores, strict=True)},
        },
    )


def scaled(score: Score, factor: float) -> Score:
    """The same on another scale."""
    if factor == 1:
        return score
    return replace(
        score,
        overall=score.overall * factor,
        per_sample=[value * factor for value in score.per_sample],
        tasks={name: value * factor for name, value in score.tasks.items()},
        summary={**score.summary, **bootstrap.scaled(score.summary, factor)},
    )
