"""Cells that wait, by what tells them apart: how long they take, and what they ask of a slot."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from sortedcontainers import SortedList

from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Need
from benchfleet.policies.base import Work
from benchfleet.runner.resources.shapes import SlotShape

MAX_KINDS = 1000  # kinds of cells at most, where one with a certain time is sought
_NO_PRIORITY = -(10**12)


class Entry(NamedTuple):
    """A waiting cell, by what decides which is claimed first."""

    descending: int  # the priority, negated
    rank: float
    position: int  # in the order of enrolment, from where this runner begins
    fingerprint: str


@dataclass(kw_only=True, eq=False)
class Kind:
    """Cells that are alike in all that a time depends on."""

    cell: Cell  # one of them
    lanes: list[Lane] = field(default_factory=list)  # where some have waited
    seconds: float = 1.0  # expected of each
    has_estimate: bool = False  # from others of its like
    rank: float = 0.0
    dropped: bool = False  # there is no time for them


@dataclass(kw_only=True, eq=False)
class Lane:
    """The waiting cells that one loaded model serves and that ask for the same slot."""

    shape: SlotShape
    need: Need
    model: str  # its name
    work: Work
    kinds: dict[Kind, dict[str, Entry]] = field(default_factory=dict)  # by fingerprint
    order: SortedList[Entry] = field(default_factory=SortedList)  # the next to claim first

    @property
    def priority(self) -> int:
        """The largest that waits."""
        return -self.order[0].descending if self.order else _NO_PRIORITY

    def put(self, kind: Kind, entry: Entry) -> None:
        """One more waits."""
        self.kinds.setdefault(kind, {})[entry.fingerprint] = entry
        self.order.add(entry)
        self.count(kind, 1)

    def drop(self, kind: Kind, fingerprint: str) -> None:
        """It waits no more."""
        waiting = self.kinds[kind]
        self.order.remove(waiting.pop(fingerprint))
        self.count(kind, -1)
        if not waiting:
            del self.kinds[kind]

    def rerank(self, kind: Kind) -> None:
        """The cells of the kind have another rank."""
        for fingerprint, entry in self.kinds.get(kind, {}).items():
            self.order.remove(entry)
            self.kinds[kind][fingerprint] = entry = entry._replace(rank=kind.rank)
            self.order.add(entry)

    def count(self, kind: Kind, cells: int) -> None:
        """Their times and number change by those of so many cells."""
        work = self.work
        work.cells += cells
        work.seconds += cells * kind.seconds
        if not work.cells:  # no rounding is left behind
            work.seconds = 0.0

    def ending_within(self, seconds: float, at_most: int) -> list[str]:
        """Waiting cells that should end in that time, the longest first."""
        has_estimate = (kind for kind in islice(self.kinds, MAX_KINDS) if kind.has_estimate)
        matches = sorted(
            (k for k in has_estimate if k.seconds <= seconds), key=lambda k: -k.seconds
        )
        return list(islice(chain.from_iterable(self.kinds[kind] for kind in matches), at_most))

    def shortest(self) -> float:
        """Seconds of the shortest cell; 0 where one is not known, or there are too many kinds."""
        kinds = self.kinds if len(self.kinds) < MAX_KINDS else ()
        seconds = (kind.seconds if kind.has_estimate else 0.0 for kind in kinds)
        return min(seconds, default=0.0)

    def longest(self) -> float:
        """Seconds of the longest cell; 0 where there are too many kinds to look at."""
        kinds = self.kinds if len(self.kinds) < MAX_KINDS else ()
        return max((kind.seconds for kind in kinds), default=0.0)
