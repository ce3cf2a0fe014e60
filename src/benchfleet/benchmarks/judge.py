"""A judge: a model that grades stored answers by a rubric, alone or beside those of a baseline.

A campaign has no benchmark of this name. A benchmark's ``judge`` makes these cells once its answers
are published (`benchfleet.judgements`). Data are the stored answers: their digest, the judge and
the rubric are the identity.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.canonical import content_digest
from benchfleet.domain.judging import FORMS, parse_verdict
from benchfleet.errors import CellFailure
from benchfleet.models.base import Prompt

from .base import Record, Sample, SampleBenchmark, Score
from .parameters import with_defaults

_DEFAULTS: dict[str, Any] = {
    "rubric": "",
    "scale": None,
    "answers": "",
    "baseline": "",
    "of": {},
}
_MAX_QUOTED_CHARS = 80  # of a judge's text, in a message
_FIELD = re.compile(r"{(\w+)}")


class Judge(SampleBenchmark):
    """Verdicts about stored answers.

    Parameters: `rubric`, its text; `scale`, the least and greatest verdict, or None for pairs. And
    outside the identity `answers` and `baseline`, the samples.jsonl of both, and `of`, whose they
    are.
    """

    version: ClassVar[str] = "1"
    example: ClassVar[str] = "- recall: {judge: {model: tiny, rubric: rubric.md}}"
    default_generation: ClassVar[Mapping[str, Any]] = {"max_new_tokens": 1024, "temperature": 0}
    reports: ClassVar[frozenset[str] | None] = frozenset(
        {"verdicts", "win_rate", "order_flips", "first_share"}
    )

    def __init__(self, params: Mapping[str, Any]) -> None:
        values = with_defaults(params, _DEFAULTS)
        self._rubric, self._scale = str(values["rubric"]), values["scale"]
        self._answers, self._baseline = str(values["answers"]), str(values["baseline"])
        self._of = dict(values["of"])
        if not self._answers or not self._rubric:
            raise ValueError("is made by the key 'judge' of a benchmark; write it there")

    def params(self) -> Mapping[str, Any]:
        return {"rubric": self._rubric, "scale": self._scale}

    def outside(self) -> Mapping[str, Any]:
        return {"answers": self._answers, "baseline": self._baseline, "of": self._of}

    def files(self, subset: str | None) -> Sequence[Path]:
        return [Path(one) for one in (self._answers, self._baseline) if one]

    def data_digest(self, subset: str | None) -> str:
        """Of what was asked and answered, whatever it took."""
        names = ("id", "predicted_answer", "columns")
        stored = [[[one.get(name) for name in names] for one in some] for some in self._stored]
        return content_digest(stored)

    def samples(self, subset: str | None, seed: int) -> Iterator[Sample]:
        answers, *others = self._stored
        if not others:
            for number, one in enumerate(answers):
                response = {"response": one["predicted_answer"]}
                yield self._sample(number, str(one["id"]), one, response)
            return
        baseline = {one["id"]: one for one in others[0]}
        pairs = [(one, baseline[one["id"]]) for one in answers if one["id"] in baseline]
        for number, (one, other) in enumerate(pairs):
            texts = one["predicted_answer"], other["predicted_answer"]
            for order in (0, 1):
                first, second = texts if order == 0 else texts[::-1]
                both = {"response_a": first, "response_b": second}
                yield self._sample(2 * number + order, f"{one['id']}~{order}", one, both)

    def score(self, records: Sequence[Record]) -> Score:
        verdicts = [parse_verdict(record.predicted_answer, self._scale) for record in records]
        values = list(verdicts) if self._scale else _pairs(verdicts)
        scored = [value for value in values if value is not None]
        if not scored:
            raise self._without_verdicts(records)
        overall = math.fsum(scored) / len(scored)
        summary: dict[str, Any] = {"verdicts": sum(one is not None for one in verdicts)}
        if not self._scale:
            summary |= {"win_rate": overall, **_order(verdicts)}
        return Score(
            overall=overall,
            per_sample=[0.0 if value is None else value for value in values],
            summary=summary,
            parsed=["" if one is None else f"{one:g}" for one in verdicts],
            unscored=[n for n, value in enumerate(values) if value is None],
            unparsed=[n for n, one in enumerate(verdicts) if one is None],
        )

    def _without_verdicts(self, records: Sequence[Record]) -> CellFailure:
        """The failure of a judgement without a score."""
        message = "there is no answer to judge: the judged cell, or its baseline, has none"
        if records:
            example = "'VERDICT: TIE'"
            if self._scale:
                least, greatest = self._scale
                example = f"'VERDICT: {least:g}', with a number from {least:g} to {greatest:g}"
            message = (
                f"none of {len(records)} texts has a verdict that can be parsed: it must stand on "
                f"a line of its own at the end, such as {example}; the first text ends with "
                f"{records[0].predicted_answer[-_MAX_QUOTED_CHARS:]!r}. Change the rubric, the "
                "judge's 'generation' (such as a larger max_new_tokens), or the judge's model"
            )
            if self._scale:
                message += "; 'scale' sets the numbers"
            else:
                message += "; a pair counts if both of its orders have a verdict"
        return CellFailure(stage="collect", kind="user_error", message=message)

    @cached_property
    def _stored(self) -> list[list[dict[str, Any]]]:
        """The samples of the answers, and of the baseline's."""
        read = []
        for file in (self._answers, self._baseline):
            if file:
                lines = Path(file).read_bytes().splitlines()
                records = [json.loads(line) for line in lines]
                read.append(sorted(records, key=lambda one: int(one["index"])))
        return read

    def _sample(
        self, index: int, id: str, record: Mapping[str, Any], responses: Mapping[str, str]
    ) -> Sample:
        columns = record.get("columns") or {}
        texts = {name: _text(value) for name, value in {**columns, **responses}.items()}
        names = {*_FIELD.findall(self._rubric)} & {*texts}
        prompt = _FIELD.sub(
            lambda match: texts.get(match[1], match[0]), self._rubric
        )  # what a text holds is not filled in again
        columns_left = columns if not names & {*columns} else {}
        missing = {**columns_left, **{n: v for n, v in responses.items() if n not in names}}
        for name, value in missing.items():
            prompt += f"\n\n[{name}]\n{_text(value)}"
        form = FORMS["pair"] if not self._scale else FORMS["scale"].format(*self._scale)
        return Sample(
            index=index,
            id=id,
            prompt=Prompt(messages=(("user", f"{prompt}\n\n{form}"),)),
            columns={"question": record["id"], **responses},
            question=str(record.get("question") or record["id"]),
            context=str(record.get("context") or ""),
        )


def _pairs(verdicts: Sequence[float | None]) -> list[float | None]:
    """The value of both orders for each record: the share that the answer won of its pair."""
    values: list[float | None] = []
    for first, second in zip(verdicts[::2], verdicts[1::2], strict=True):
        whole = first is not None and second is not None
        value = (first + 1.0 - second) / 2 if first is not None and second is not None else None
        values += [value if whole else None] * 2
    return values


def _order(verdicts: Sequence[float | None]) -> dict[str, float]:
    """The share of pairs in which the same position won in both orders, and that of the first."""
    pairs = [
        (first, second)
        for first, second in zip(verdicts[::2], verdicts[1::2], strict=True)
        if first is not None and second is not None
    ]
    flips = [pair for pair in pairs if pair[0] == pair[1] and pair[0] != 0.5]
    if not pairs:
        return {}
    return {
        "order_flips": len(flips) / len(pairs),
        "first_share": sum(pair[0] == 1.0 for pair in flips) / len(flips) if flips else 0.5,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
