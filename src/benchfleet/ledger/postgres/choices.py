"""The chosen cells that nobody began yet, in the order in which a runner wants them.

A choice may hold a million cells, nearly the same in every claim of a run, and its order is the
runner's own. So it is kept here rather than in a database that many runners share: a claim names
the first few, and takes those of them that are still free.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import NamedTuple

from benchfleet.domain.resource import Choice, Offer


class Waiting(NamedTuple):
    """A cell that waits, as the ledger tells it."""

    ordinal: int
    fingerprint: str
    lane: int
    priority: int
    ready: float | None = None  # end of its back-off by the ledger's clock; None: it has none


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What the cells of a lane ask for."""

    load_key: str
    gpus: int
    vram: int

    def weight(self, offer: Offer) -> float | None:
        """What the offer adds to the rank of its cells; None where they do not fit."""
        fits = self.gpus <= offer.gpus and self.vram <= offer.vram
        return offer.weight(self.load_key) if fits else None


_SORTED = 256  # cells that are sorted beyond those that are asked for
_PASSED = 1000  # cells that were begun and are passed over, beside as many as wait
_AT_ONCE = 64  # cells that are looked through for those of a part
_SPREAD, _SPREAD_OVER = 165902235, 2**28 - 1  # of the golden ratio: Knuth's multiplicative hash
Key = tuple[float, ...]


class _Place(NamedTuple):
    """Where a cell stands in its lane: the smaller goes first."""

    after: int  # its priority, negated
    rank: float
    ordinal: int
    fingerprint: str


class Part(NamedTuple):
    """One of so many parts into which cells fall by their numbers, each as large as any other."""

    number: int
    parts: int

    def of(self, places: list[_Place]) -> Iterator[_Place]:
        """Those that are in it, from the last on."""
        number, parts = self
        for end in range(len(places), 0, -_AT_ONCE):
            yield from [
                place
                for place in places[max(0, end - _AT_ONCE) : end][::-1]
                if (place.ordinal * _SPREAD & _SPREAD_OVER) * parts >> 28 == number
            ]


@dataclass(kw_only=True, eq=False)
class ChosenCells:
    """The cells of one choice, by lane; those that were begun are passed over, and forgotten when
    they come to the front."""

    choice: Choice
    version: int  # of the choice, that these are of
    _lanes: dict[int, list[_Place]] = field(default_factory=dict)
    _waiting: set[int] = field(default_factory=set)  # those that nobody began, by ordinal
    _sorted: deque[tuple[Key, _Place]] = field(default_factory=deque)  # the first of all lanes
    _weights: list[tuple[int, float]] = field(default_factory=list)  # by which, of each lane
    _asked: tuple[object, ...] = ()  # what was offered last
    _checked: int = -1  # the version of the choice for which all that are sorted stand

    def fill(self, cells: Iterable[Waiting]) -> None:
        """Take in all of the choice that nobody began yet."""
        for cell in cells:
            if cell.fingerprint in self.choice:
                self._lanes.setdefault(cell.lane, []).append(_place(cell, self.choice))
                self._waiting.add(cell.ordinal)
        for places in self._lanes.values():
            places.sort(reverse=True)  # the first is at the end, whence it is taken

    def put(self, cells: Iterable[Waiting]) -> None:
        """Take in cells that were put into the choice, or got another rank; what stands there for
        an earlier rank is passed over."""
        for cell in cells:
            if cell.fingerprint in self.choice:
                places = self._lanes.setdefault(cell.lane, [])
                insort(places, _place(cell, self.choice), key=_backwards)
                self._waiting.add(cell.ordinal)
        self._sorted.clear()
        self._asked = ()

    def begun(self, ordinals: Iterable[int]) -> None:
        """These are nobody's first attempt any more; some may be no cells of the choice."""
        self._waiting.difference_update(ordinals)

    def first(self, offer: Offer, lanes: Mapping[int, Lane], count: int) -> list[Key]:
        """The first cells that fit the offer, in its order: (after, rank with weight, ordinal)."""
        self._bring_up(offer, lanes)
        if self.choice.version != self._checked:  # some have another rank, or none
            self._sorted = deque(one for one in self._sorted if self._stands(one[1]))
            self._checked = self.choice.version
        found = self._unbegun(count)
        if len(found) < count:
            self._sorted = deque(islice(self._in_order(), _SORTED + count))
            found = self._unbegun(count)
        return found

    def _bring_up(self, offer: Offer, lanes: Mapping[int, Lane]) -> None:
        asked = (offer.gpus, offer.vram, dict(offer.models), offer.others)
        if asked != self._asked:  # most offers of a run are like one before
            weights = [
                (number, weight)
                for number in self._lanes
                if (weight := lanes[number].weight(offer)) is not None
            ]
            if weights != self._weights:
                self._sorted.clear()
            self._weights, self._asked = weights, asked

    def ordered(
        self, offer: Offer, lanes: Mapping[int, Lane], part: Part | None = None
    ) -> Iterator[Key]:
        """The same one by one, or those of a part, for as long as none is told to have begun."""
        self._bring_up(offer, lanes)
        return (key for key, _ in self._in_order(part))

    def waits(self, ordinal: int) -> bool:
        """Whether nobody began that cell of the choice, as far as is known."""
        return ordinal in self._waiting

    def _unbegun(self, count: int) -> list[Key]:
        """The first of those that are sorted."""
        ready, waiting, found = self._sorted, self._waiting, list[Key]()
        while ready and ready[0][1].ordinal not in waiting:
            ready.popleft()
        for key, place in ready:
            if place.ordinal in waiting:
                found.append(key)
                if len(found) == count:
                    break
        return found

    def next(self, count: int) -> Iterator[int]:
        """The cells that were first in the order of the last offer, those that nobody began."""
        standing = (place.ordinal for _, place in self._sorted if self._stands(place))
        return islice(standing, count)

    def _in_order(self, part: Part | None = None) -> Iterator[tuple[Key, _Place]]:
        if sum(map(len, self._lanes.values())) > 2 * len(self._waiting) + _PASSED:
            self._clear()
        queues = [
            self._of_lane(self._lanes[number], weight, part) for number, weight in self._weights
        ]
        return merge(*queues)

    def _clear(self) -> None:
        """Forget what was begun behind a cell that others run, or nobody has told of."""
        for number, places in self._lanes.items():
            self._lanes[number] = [one for one in places if one.ordinal in self._waiting]

    def _of_lane(
        self, places: list[_Place], weight: float, part: Part | None
    ) -> Iterator[tuple[Key, _Place]]:
        while places and not self._stands(places[-1]):
            places.pop()
        for place in part.of(places) if part else reversed(places):
            if self._stands(place):
                yield (place.after, place.rank + weight, place.ordinal), place

    def _stands(self, place: _Place) -> bool:
        return (
            place.ordinal in self._waiting
            and place.fingerprint in self.choice
            and self.choice.rank(place.fingerprint) == place.rank
        )


def sort_key(cell: Waiting, choice: Choice, weight: float) -> Key:
    """Where a cell that was begun before stands among the others."""
    return -cell.priority, choice.rank(cell.fingerprint) + weight, cell.ordinal


def _place(cell: Waiting, choice: Choice) -> _Place:
    return _Place(-cell.priority, choice.rank(cell.fingerprint), cell.ordinal, cell.fingerprint)


def _backwards(place: _Place) -> tuple[float, float, int]:
    return -place.after, -place.rank, -place.ordinal
