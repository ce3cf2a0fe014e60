"""The lm-eval tasks of one cell: each takes a range of its samples, and their scores are one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from benchfleet.benchmarks.base import Record, Score, Session

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


def before_last(*marks: str) -> ContextEnd:
    """The context ends before the last of these marks."""

    def end(doc: Mapping[str, Any], text: str) -> int:
        position = max(text.rfind(mark) for mark in marks)
        if position < 0:
            raise ValueError(f"a prompt holds none of {', '.join(map(repr, marks))}")
        return position

    return end


class _PartSession:
    """A session whose samples from `first` on are those of one task."""

    def __init__(self, session: Session, first: int, count: int) -> None:
        self._session, self._first = session, first
        self.recorded = [
            # Answers of unfinished documents are matched by content.
            record if record.index < 0 else replace(record, index=record.index - first)
            for record in session.recorded
            if record.index < 0 or first <= record.index < first + count
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def record(self, record: Record) -> None:
        shifted = record.index if record.index < 0 else record.index + self._first
        self._session.record(replace(record, index=shifted))


def part_session(session: Session, first: int, count: int) -> Session:
    """The session of one task: of the cell's samples it has `count` from `first` on."""
    return cast(Session, _PartSession(session, first, count))


def combined(parts: Sequence[Part], scores: Sequence[Score], weights: Sequence[int]) -> Score:
    """The score of a cell: the weighted mean of its tasks'."""
    if len(scores) == 1:
        return scores[0]
    weighted = [weight * score.overall for weight, score in zip(weights, scores, strict=True)]
    tasks = {part.label: score.overall for part, score in zip(parts, scores, strict=True)}
    for part, score in zip(parts, scores, strict=True):
        tasks |= {f"{part.label} {name}": value for name, value in score.tasks.items()}
    whole = all(score.per_sample for score in scores)
    return Score(
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
    )
