"""The chosen cells that can be claimed, in a temporary table of the handle's own.

A choice may hold a million cells, nearly the same in every claim of a run. The table keeps those
that can be claimed, or wait for their back-off, and follows what happens to them, to their ranks,
and to the choices. What the handle itself does it enters at once; what others did it reads from
the events.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from benchfleet.domain.resource import Choice

_TOGETHER = 50_000  # cells of a choice that are taken in at once


class Rows(Protocol):
    """The answer of a statement, row by row."""

    @property
    def lastrowid(self) -> int | None: ...

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Do(Protocol):
    """Runs one statement by its name."""

    def __call__(self, name: str, /, **values: Any) -> Rows: ...


def wake(do: Do, now: float) -> float:
    """Let the cells whose back-off is over wait; until when that suffices."""
    until = math.inf
    for which, due in zip(("wake", "chosen_wake"), do("next_due").fetchone(), strict=True):
        if due is not None:
            if due <= now:
                do(which, now=now)
            until = min(until, max(due, now))
    return until


class ChosenTable:
    """Keeps temp.chosen as the last committed transaction left it: whoever ends one calls `keep`,
    or `take_back` where it was rolled back."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Choice, int] = WeakKeyDictionary()
        self._largest = 0
        self._versions: dict[int, int] = {}  # of the choices that are in the table, by number
        self._seen = 0  # the last event that the table has followed
        self._kept = self._versions, self._seen

    def keep(self) -> None:
        self._kept = self._versions, self._seen

    def take_back(self) -> None:
        self._versions, self._seen = self._kept

    @property
    def seen(self) -> int:
        """The last event that was followed."""
        return self._seen

    def follow(self, do: Do, last: int) -> None:
        """Take in what happened up to the `last` event."""
        if self._seen < last:
            self._catch_up(do)
            self._seen = last

    def bring(self, do: Do, choice: Choice) -> int:
        """Bring the table to what of the choice can be claimed now; the choice's number."""
        number, version = self._numbers.get(choice, 0), choice.version
        known = self._versions.get(number)
        if known is None:
            self._largest = number = self._numbers[choice] = self._largest + 1
            self._enter(do, number, choice, list(choice))
        elif known < version:
            changed = choice.changed(known)
            do("leave_out_of", number=number, among=json.dumps(changed))
            self._enter(do, number, choice, changed)
        if known != version:
            self._versions = {**self._versions, number: version}
        return number

    def began(self, do: Do, ordinal: int, event: int) -> None:
        """The cell was claimed here, as that event tells."""
        if self._seen == event - 1:  # else it is read with what happened before
            if self._versions:
                do("begun", ordinal=ordinal)
            self._seen = event

    def ended(self, event: int) -> None:
        """A cell that ran ended here for good, as that event tells: it was not in the table."""
        if self._seen == event - 1:
            self._seen = event

    def _catch_up(self, do: Do) -> None:
        """Enter what happened to cells since."""
        if not self._versions:
            return
        rows = do("happened", seen=self._seen).fetchall()
        if any(enrolled for _, enrolled in rows):  # which cells there are, or their lanes, changed
            do("forget_chosen")
            self._versions = {}
            return
        happened = [fingerprint for fingerprint, _ in rows if fingerprint]
        if not happened:
            return
        do("leave_out", among=json.dumps(happened))
        alive = {number: choice for choice, number in self._numbers.items()}
        for number in self._versions:
            if number in alive:
                self._enter(do, number, alive[number], happened)
            else:  # nobody asks about it any more
                do("forget_chosen_of", number=number)
        self._versions = {n: version for n, version in self._versions.items() if n in alive}

    def _enter(self, do: Do, number: int, choice: Choice, cells: Sequence[str]) -> None:
        for start in range(0, len(cells), _TOGETHER):
            some = cells[start : start + _TOGETHER]
            ranks = {cell: choice.rank(cell) for cell in some if cell in choice}
            if ranks:
                do("choose", number=number, ranks=json.dumps(ranks))
