"""The cells of a memory ledger that wait, in the order in which claims want them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Choice, Offer


class Waits(Protocol):
    """A cell as the ledger has it."""

    cell: Cell
    ordinal: int
    ready: float  # by the ledger's clock: from when on it can be claimed


class _Lane(NamedTuple):
    """What tells which offers a cell fits."""

    load_key: str
    gpus: int
    vram: int


_Place = tuple[int, float, int]  # the priority, negated; the rank; the order of enrolment


class _Line:
    """The cells of one choice, or all, by lane. What was taken, or stands elsewhere by now, is
    passed over when it comes to the front."""

    def __init__(self) -> None:
        self.lanes: dict[_Lane, list[tuple[_Place, str]]] = {}
        self.version = 0  # of the choice
        self.seen = 0  # cells that came

    def put(self, lane: _Lane, place: _Place, fingerprint: str) -> None:
        heapq.heappush(self.lanes.setdefault(lane, []), (place, fingerprint))


class MemoryOrder:
    """Finds the best cell for an offer without a walk over all that wait. `waiting` are those that
    do; `came` is to be told of each that begins to, or whose terms became others."""

    def __init__(self, waiting: Mapping[str, Waits]) -> None:
        self._waiting = waiting
        self._came: list[str] = []  # in their order
        self._later: list[tuple[float, str]] = []  # a heap: ends of back-offs
        self._all = _Line()
        self._chosen: WeakKeyDictionary[Choice, _Line] = WeakKeyDictionary()

    def came(self, fingerprint: str, now: float) -> None:
        """It waits, from `ready` on."""
        ready = self._waiting[fingerprint].ready
        if ready > now:
            heapq.heappush(self._later, (ready, fingerprint))
        else:
            self._came.append(fingerprint)

    def first(self, offer: Offer, now: float) -> str | None:
        """The cell that the offer takes first; None where it takes none."""
        while self._later and self._later[0][0] <= now:
            self._came.append(heapq.heappop(self._later)[1])
        rank, line = self._brought_up(offer.among)
        best: tuple[_Place, str] | None = None
        for lane, heap in line.lanes.items():
            fits = lane.gpus <= offer.gpus and lane.vram <= offer.vram
            if not fits or (weight := offer.weight(lane.load_key)) is None:
                continue
            while heap and not self._stands(lane, *heap[0], rank, now):
                _, fingerprint = heapq.heappop(heap)
                waits = self._waiting.get(fingerprint)
                if waits is not None and waits.ready > now:  # its back-off began since
                    self.came(fingerprint, now)
            if heap:
                (after, own, ordinal), fingerprint = heap[0]
                found = (after, own + weight, ordinal), fingerprint
                best = found if best is None else min(best, found)
        return best[1] if best else None

    def _brought_up(self, choice: Choice | None) -> tuple[Callable[[str], float | None], _Line]:
        """The rank of each cell, None for those that are not meant; and their line."""
        line = self._all if choice is None else self._chosen.setdefault(choice, _Line())

        def rank(fingerprint: str) -> float | None:
            if choice is None:
                return 0.0
            return choice.rank(fingerprint) if fingerprint in choice else None

        came, line.seen = self._came[line.seen :], len(self._came)
        if choice is not None:
            came, line.version = came + choice.changed(line.version), choice.version
        for fingerprint in came:
            waits, own = self._waiting.get(fingerprint), rank(fingerprint)
            if waits is not None and own is not None:
                line.put(_lane(waits), (-waits.cell.priority, own, waits.ordinal), fingerprint)
        return rank, line

    def _stands(
        self,
        lane: _Lane,
        place: _Place,
        fingerprint: str,
        rank: Callable[[str], float | None],
        now: float,
    ) -> bool:
        if (waits := self._waiting.get(fingerprint)) is None or waits.ready > now:
            return False
        own = (-waits.cell.priority, rank(fingerprint), waits.ordinal)
        return own == place and lane == _lane(waits)


def _lane(waits: Waits) -> _Lane:
    need = waits.cell.need
    return _Lane(waits.cell.model.load_key, need.gpus, need.vram)
