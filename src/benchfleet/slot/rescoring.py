"""Stands in for the model when recorded answers are scored again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count

from benchfleet.errors import CellFailure
from benchfleet.models.base import Answer, Loan, Prompt


class NothingToAsk:
    """Refuses every question and names the sample that lacks an answer; `answered` are the indices
    of the recorded samples."""

    lends, serves, independent = True, False, False  # as an adapter says it

    def __init__(self, answered: Collection[int]) -> None:
        self._answered = answered

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, object]) -> list[Answer]:
        missing = next(index for index in count() if index not in self._answered)
        raise _unscored(f"sample {missing} was never generated")

    def end_asking(self, failure: CellFailure) -> bool:
        return False

    def lend(self) -> AbstractContextManager[Loan]:
        raise _unscored("this benchmark scores only while it asks a model")


def refuse_to_run_again(name: str) -> CellFailure:
    """The failure of a benchmark that asks and scores in a process of its own."""
    return _unscored(f"{name} asks and scores in one")


def _unscored(why: str) -> CellFailure:
    return CellFailure(stage="collect", kind="bad_result", message=why)
