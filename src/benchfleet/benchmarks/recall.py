"""Recall: finding one record again in a text of any length, generated from a seed.

The text is lower-case filler in which records such as ``K7`` are strewn, an upper-case key and
its digit. The question ``?K`` asks for the digit of one of them, the needle, which stands at a
set depth. It is the associative recall of arXiv 2312.04927 put into a haystack, as tiny models
can learn it: `examples/recall/train.py` trains one on the same texts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from benchfleet.models.base import Prompt

from .base import Record, Sample, SampleBenchmark, Score
from .parameters import fractions, whole_number, with_defaults
from .scoring import averaged, mean_by

_KEYS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "0123456789"
_FILLER = "etaoinshrdlu   "  # every fifth character is a space
_CHANCE_ACCURACY = 1 / len(_DIGITS)
_LENGTHS = ("128", "512", "1024")
_MIN_CHARS = 32
_DEFAULTS: dict[str, Any] = {
    "samples": 100,
    "records": 16,
    "depths": [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95],
}
_Item = TypeVar("_Item")


class Recall(SampleBenchmark):
    """Say the digit of one key in a text.

    The subset is the text's length in characters, the question not counted.
    Parameters: `samples` of each length; `records` in each text, the needle among them;
    `depths` of the needle, taken in turn, from 0 (first in the text) to 1 (last in it).
    Run whole, without a subset, it asks the lengths that `subsets` names, one after another.
    """

    takes_length: ClassVar[bool] = True  # one token is asked for
    reports: ClassVar[frozenset[str] | None] = frozenset({"chance"})
    default_generation: ClassVar[Mapping[str, Any]] = {"max_new_tokens": 1, "temperature": 0}

    def __init__(self, params: Mapping[str, Any]) -> None:
        values = with_defaults(params, _DEFAULTS)
        self._samples = whole_number("samples", values["samples"], least=1)
        self._records = whole_number("records", values["records"], least=1, most=len(_KEYS))
        self._depths = fractions("depths", values["depths"])

    def params(self) -> Mapping[str, Any]:
        return {
            "samples": self._samples,
            "records": self._records,
            "depths": list(self._depths),
        }

    def subsets(self) -> Sequence[str]:
        return _LENGTHS

    def check_subset(self, subset: str) -> str | None:
        """Any length will do that holds the records; the named ones are only the usual."""
        if not re.fullmatch("[1-9][0-9]{0,8}", subset):
            return f"a subset is the text's length in characters, such as '512'; not {subset!r}"
        if int(subset) < _MIN_CHARS:
            return f"a text of {subset} characters is too short; ask for {_MIN_CHARS} or more"
        if int(subset) < 2 * self._records:
            return (
                f"{self._records} records do not fit into {subset} characters; "
                f"ask for {2 * self._records} or more, or set fewer records"
            )
        return None

    def longest_prompt(self, subset: str | None) -> int:
        """The text and the question, ``?K``."""
        return max(int(length) for length in (_LENGTHS if subset is None else (subset,))) + 2

    def samples(self, subset: str | None, seed: int) -> Iterator[Sample]:
        lengths = _LENGTHS if subset is None else (subset,)
        for position, length in enumerate(lengths):
            wrong = self.check_subset(length)
            if wrong is not None:
                raise ValueError(wrong)
            yield from self._of_length(int(length), seed, first=position * self._samples)

    def score(self, records: Sequence[Record]) -> Score:
        """Right is an answer whose first character, spaces aside, is the digit."""
        per_sample = [
            float(record.predicted_answer.strip()[:1] == record.columns["answer"])
            for record in records
        ]
        tasks = mean_by("depth", [record.columns["depth"] for record in records], per_sample)
        lengths = [record.columns["length"] for record in records]
        if len(set(lengths)) > 1:
            tasks |= mean_by("length", lengths, per_sample)
        unparsed = [
            number
            for number, record in enumerate(records)
            if record.predicted_answer.strip()[:1] not in _DIGITS
        ]
        summary = {"chance": _CHANCE_ACCURACY}
        parsed = [record.predicted_answer.strip()[:1] for record in records]
        score = averaged(per_sample, tasks=tasks, summary=summary, unparsed=unparsed)
        return replace(score, parsed=parsed)

    def _of_length(self, length: int, seed: int, *, first: int) -> Iterator[Sample]:
        rng = random.Random(seed)  # noqa: S311 - data, not secrets
        for number in range(self._samples):
            depth = self._depths[number % len(self._depths)]
            context, key, digit = _text(rng, length, self._records, depth)
            question = f"?{key}"
            yield Sample(
                index=first + number,
                id=f"{seed:08x}-{length}-{number}",
                prompt=Prompt(context=context, question=question),
                columns={
                    "context": context,
                    "question": question,
                    "answer": digit,
                    "depth": depth,
                    "length": length,
                },
            )


def _text(rng: random.Random, length: int, records: int, depth: float) -> tuple[str, str, str]:
    """A text, and the key and digit of the record that stands at `depth` of it."""
    text = [_FILLER[_below(rng, len(_FILLER))] for _ in range(length)]
    positions = list(range(length // 2))  # two characters each, so that no records overlap
    needle = positions.pop(int(depth * (len(positions) - 1) + 0.5))
    keys = _drawn(rng, _KEYS, records)
    digits = [_DIGITS[_below(rng, len(_DIGITS))] for _ in keys]
    for position, key, digit in zip(
        [needle, *_drawn(rng, positions, records - 1)], keys, digits, strict=True
    ):
        text[2 * position : 2 * position + 2] = key, digit
    return "".join(text), keys[0], digits[0]


def _drawn(rng: random.Random, items: Sequence[_Item], count: int) -> list[_Item]:
    """`count` different items in random order."""
    remaining = list(items)
    return [remaining.pop(_below(rng, len(remaining))) for _ in range(count)]


def _below(rng: random.Random, limit: int) -> int:
    # Of Python's generator only `random()` promises the same numbers in every version.
    return int(rng.random() * limit)
