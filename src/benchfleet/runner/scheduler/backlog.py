"""What waits to be run, as one runner knows it: for what slot, and since when others run it."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from benchfleet.domain.attempt import CellRecord, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Need
from benchfleet.policies.base import Policy, Preference, Work
from benchfleet.runner.resources.shapes import SlotShape
from benchfleet.runner.scheduler.durations import DurationIndex
from benchfleet.runner.scheduler.lanes import Entry, Kind, Lane


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """Expected seconds of all that waits."""

    seconds: float = 0.0
    longest: float = 0.0  # of one cell
    cells: int = 0
    loads: float = 0.0  # seconds, of models that no slot has
    gpu_seconds: float = 0.0  # of the seconds, those of cells that need a GPU


class Backlog:
    """The cells that one runner is about: which of them wait, and for what slot. Nothing that
    happens to one cell walks the others."""

    def __init__(
        self,
        runner: RunnerId,
        cells: Mapping[str, Cell],
        policy: Policy,
        device_type: str,
        shape: Callable[[str], SlotShape],
        *,
        holds: Callable[[str], bool],
        first: int = 0,
    ) -> None:
        """`holds`: whether this runner holds a lease of the cell. `first`: at which of the cells
        this runner begins, where several are equally good. On a ledger of many hosts each runner
        begins elsewhere, so that few of them claim the same."""
        self._runner, self._cells, self.shape, self._holds = runner, cells, shape, holds
        order = islice(cycle(cells), first, first + len(cells))
        self._positions = {fingerprint: n for n, fingerprint in enumerate(order)}
        self._waiting: dict[str, Lane] = {}
        self._lanes: dict[tuple[SlotShape, str, Need], Lane] = {}
        self._later: list[tuple[float, str]] = []  # ends of back-offs
        self._back_offs: dict[str, float] = {}
        self._held_back: frozenset[str] = frozenset()
        # what other runners run: when they began, or before
        self.running_elsewhere: dict[str, float] = {}
        self.estimates = DurationIndex(cells, policy, device_type, _rerank)

    def add_cells(self, cells: Mapping[str, Cell]) -> None:
        """Be about these cells too, which are new; none of them waits yet."""
        self.estimates.add_cells(cells)
        for fingerprint in cells:
            self._positions[fingerprint] = len(self._positions)

    def hold_back(self, fingerprints: frozenset[str]) -> None:
        """Hold back exactly these cells: they cannot be claimed, whatever happens to them. Cells
        that are no longer held back wait once their records are loaded."""
        for fingerprint in fingerprints - self._held_back:
            self.mark_unavailable(fingerprint)
        self._held_back = fingerprints

    def drop_longer_than(self, seconds: float) -> list[str]:
        """Be no more about the cells that should take longer; those whose time nobody knows stay.
        Which they are."""
        if not (kinds := self.estimates.drop_longer_than(seconds)):
            return []
        remaining = [name for name in self._cells if self.estimates.kind(name) in kinds]
        for fingerprint in remaining:
            self.mark_unavailable(fingerprint)
        return remaining

    # What is asked

    def candidates(self, lanes: Iterable[Lane], preference: Preference, count: int) -> list[str]:
        """The best cells that wait in these lanes for a slot with that wish, in the order in which
        to claim them."""

        def weighted(lane: Lane, weight: float) -> Iterator[Entry]:
            return (entry._replace(rank=entry.rank + weight) for entry in lane.order)

        weights = [(lane, preference.weight(lane.work.load_key)) for lane in lanes]
        best = heapq.merge(*(weighted(lane, w) for lane, w in weights if w is not None))
        return [entry.fingerprint for entry in islice(best, count)]

    @property
    def waiting(self) -> Iterable[str]:
        """The cells that can be claimed now."""
        return self._waiting

    @property
    def has_back_offs(self) -> bool:
        """Whether a cell waits for the time of its next try."""
        return bool(self._back_offs)

    def needs(self) -> Mapping[Need, int]:
        """How many cells can be claimed now, by what they need."""
        cells: Counter[Need] = Counter()
        for lane in self.lanes():
            cells[lane.need] += lane.work.cells
        return cells

    def lanes(self) -> list[Lane]:
        """What waits now, in the order in which it was first seen."""
        return [lane for lane in self._lanes.values() if lane.work.cells]

    def load(self, lane: Lane) -> float:
        """Seconds that its model takes to load; 0 where nobody knows."""
        return self.estimates.load(lane.model)

    def ending_within(
        self, limit: float, model: str, lanes: Iterable[Lane], at_most: int
    ) -> list[str]:
        """Cells that a slot with this model in memory should have ended in so many seconds."""
        results: list[str] = []
        for lane in sorted(lanes, key=lambda lane: lane.work.load_key != model):
            load = 0.0 if lane.work.load_key == model else self.load(lane)
            results += lane.ending_within(limit - load, at_most - len(results))
        return results

    def remaining(self, endpoint: str) -> Remaining:
        """How much is left that waits for this server elsewhere; for slots on devices with
        ``""``."""
        lanes = [lane for lane in self.lanes() if lane.shape.endpoint == endpoint]
        return Remaining(
            seconds=sum(lane.work.seconds for lane in lanes),
            longest=max((lane.longest() for lane in lanes), default=0.0),
            cells=sum(lane.work.cells for lane in lanes),
            loads=sum(lane.work.load for lane in lanes if not lane.work.serving),
            gpu_seconds=sum(lane.work.seconds for lane in lanes if lane.need.gpus),
        )

    @property
    def endpoints(self) -> set[str]:
        """What waiting cells and those of other runners ask, as `remaining` takes it."""
        elsewhere = (self._cells[name].need.endpoint for name in self.running_elsewhere)
        return {lane.shape.endpoint for lane in self.lanes()}.union(elsewhere)

    def endpoint_of(self, fingerprint: str) -> str:
        """The server elsewhere that the cell asks; ``""`` for none."""
        return self._cells[fingerprint].need.endpoint

    # What happens

    def load_records(self, records: Iterable[CellRecord], now: float) -> None:
        """Take in cells that have not ended."""
        for record in records:
            if record.fingerprint not in self._cells:
                continue
            if record.state == "running":
                self.mark_running_elsewhere(record.fingerprint, now)
            else:
                until = now + record.ready_in if record.ready_in > 0 else None
                self.mark_waiting(record.fingerprint, until=until)

    def mark_waiting(self, fingerprint: str, *, until: float | None = None) -> None:
        """The cell can be claimed; from `until` on, where that is given."""
        if fingerprint not in self._cells or self.estimates.kind(fingerprint).dropped:
            return
        if fingerprint in self._held_back:
            return
        if until is not None:
            self.mark_unavailable(fingerprint)
            self._back_offs[fingerprint] = until
            heapq.heappush(self._later, (until, fingerprint))
            return
        self._back_offs.pop(fingerprint, None)
        self.running_elsewhere.pop(fingerprint, None)
        if fingerprint in self._waiting:
            return
        cell, kind = self._cells[fingerprint], self.estimates.kind(fingerprint)
        lane = self._lane(self.shape(fingerprint), cell)
        if lane not in kind.lanes:
            kind.lanes.append(lane)
        self._waiting[fingerprint] = lane
        position = self._positions[fingerprint]
        lane.put(kind, Entry(-cell.priority, kind.rank, position, fingerprint))

    def mark_unavailable(self, fingerprint: str) -> None:
        """The cell cannot be claimed: somebody has it, or it has ended."""
        self._back_offs.pop(fingerprint, None)
        self.running_elsewhere.pop(fingerprint, None)
        if (lane := self._waiting.pop(fingerprint, None)) is not None:
            kind = self.estimates.kind(fingerprint)
            lane.drop(kind, fingerprint)

    def mark_running_elsewhere(self, fingerprint: str, now: float) -> None:
        """Another runner has the cell."""
        self.mark_unavailable(fingerprint)
        self.running_elsewhere[fingerprint] = now

    def reshape(self, fingerprints: Iterable[str]) -> None:
        """See whether these cells need another slot by now."""
        for fingerprint in fingerprints:
            lane = self._waiting.get(fingerprint)
            if lane is not None and lane.shape != self.shape(fingerprint):
                self.mark_unavailable(fingerprint)
                self.mark_waiting(fingerprint)

    def wake(self, now: float) -> None:
        """Cells whose back-off is over can be claimed."""
        while self._later and self._later[0][0] <= now:
            until, fingerprint = heapq.heappop(self._later)
            if self._back_offs.get(fingerprint) == until:
                self.mark_waiting(fingerprint)

    def follow(self, events: Sequence[Event], now: float) -> None:
        """What any runner or person did since the last time."""
        for event in events:
            fingerprint = event.fingerprint
            if fingerprint not in self._cells:
                continue
            if event.kind == "claimed":
                if event.data.get("runner") != self._runner:
                    self.mark_running_elsewhere(fingerprint, now)
                elif self._holds(fingerprint):  # else the ledger claimed it ahead: it is asked for
                    self.mark_unavailable(fingerprint)
            elif event.kind == "cancel_asked":
                self.mark_unavailable(fingerprint)
            elif event.kind == "released" and event.data.get("runner") == self._runner:
                if fingerprint not in self._back_offs:  # else it was given back until then
                    self.mark_waiting(fingerprint)
            elif event.kind in ("released", "reaped", "retry_asked"):
                self.mark_waiting(fingerprint)
            elif event.kind == "finished":
                outcome = Outcome.from_dict(event.data["outcome"])
                if outcome.retry_in is None:
                    self.mark_unavailable(fingerprint)
                else:
                    self.mark_waiting(fingerprint, until=now + outcome.retry_in)
                self.estimates.learn(self._cells[fingerprint], outcome)

    def _lane(self, shape: SlotShape, cell: Cell) -> Lane:
        key = (shape, cell.model.load_key, cell.need)
        if (lane := self._lanes.get(key)) is None:
            work = Work(load_key=cell.model.load_key, cells=0, seconds=0.0)
            lane = Lane(shape=shape, need=cell.need, model=cell.model.name, work=work)
            self._lanes[key] = lane
        return lane


def _rerank(kind: Kind) -> None:
    for lane in kind.lanes:
        lane.rerank(kind)
