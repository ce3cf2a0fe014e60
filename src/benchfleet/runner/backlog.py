"""What waits to be run, as one runner knows it: counts and expected times, kept up to date."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Need
from benchfleet.policies.base import Policy, Work
from benchfleet.runner.expected import History, Key
from benchfleet.runner.place import Shape

_NOTHING: Key = ()
_LOOKED_AT = 1000  # kinds of cells, where one is sought that ends in time


@dataclass(kw_only=True, eq=False)
class Kind:
    """Cells that are alike in all that a time depends on."""

    cell: Cell  # one of them
    cells: list[str] = field(default_factory=list)  # fingerprints
    lanes: list[Lane] = field(default_factory=list)
    seconds: float = 1.0  # expected of each
    spread: float = 1.0
    source: Key = _NOTHING  # by what that is known
    rank: float = 0.0
    left_out: bool = False  # there is no time for them


@dataclass(kw_only=True, eq=False)
class Lane:
    """The waiting cells that one loaded model serves and that ask for the same slot."""

    shape: Shape
    need: Need
    model: str  # its name
    work: Work
    kinds: Counter[Kind] = field(default_factory=Counter)  # waiting cells of each
    variance: float = 0.0  # of the seconds of all, one by one
    priorities: Counter[int] = field(default_factory=Counter)

    @property
    def priority(self) -> int:
        """The largest that waits."""
        return max((p for p, count in self.priorities.items() if count), default=-(10**12))


@dataclass(frozen=True, kw_only=True)
class Left:
    """Expected seconds of all that waits, and of how much of it nothing is known."""

    seconds: float = 0.0
    variance: float = 0.0
    longest: float = 0.0  # of one cell
    cells: int = 0
    loads: float = 0.0  # seconds, of models that no slot has


class Backlog:
    """The cells that one runner is about: which of them wait, for what slot, and how long they
    should take. Nothing that happens to one cell walks the others; that an estimate moved is told
    to the cells that it is of alone."""

    def __init__(self, cells: Iterable[Cell], policy: Policy, device_type: str) -> None:
        self.history = History()
        self._policy, self._device_type = policy, device_type
        self._cells: dict[str, Cell] = {str(cell.fingerprint): cell for cell in cells}
        self._kinds: dict[str, Kind] = {}  # by fingerprint
        self._by_key: dict[Key, list[Kind]] = {}
        self._by_source: dict[Key, set[Kind]] = {}
        self._spreads: defaultdict[Key, float] = defaultdict(
            float
        )  # seconds, of all that waits and is known by it
        self._known_by: dict[Key, int] = {}  # cells
        self._choices: dict[Shape, Choice] = {}
        self._shapes: dict[str, Shape] = {}  # of cells that need another slot than they declare
        self._waiting: dict[str, Lane] = {}
        self._lanes: dict[tuple[Shape, str, Need], Lane] = {}
        self._later: list[tuple[float, str]] = []  # ends of back-offs
        self._back_offs: dict[str, float] = {}
        self._seen = 0
        self._made: dict[tuple[object, ...], Kind] = {}
        self._sort(self._cells)

    def _sort(self, cells: Mapping[str, Cell]) -> None:
        for fingerprint, cell in cells.items():
            keys = self.history.keys(cell)
            key = (keys[0], cell.workload.limit)
            if (kind := self._made.get(key)) is None:
                kind = self._made[key] = Kind(cell=cell, rank=self._policy.rank(cell, None))
                for one in keys:
                    self._by_key.setdefault(one, []).append(kind)
            kind.cells.append(fingerprint)
            self._kinds[fingerprint] = kind
            shape = self.shape(fingerprint)
            choice = self._choices.setdefault(shape, Choice())
            if not kind.left_out:
                choice.put(fingerprint, kind.rank)

    def take_in(self, cells: Mapping[str, Cell]) -> None:
        """Be about these cells too, which are new; none of them waits yet."""
        self._cells.update(cells)
        self._sort(cells)
        self.estimate()

    def leave_out(self, seconds: float) -> list[str]:
        """Be no more about the cells that should take longer; those whose time nobody knows stay.
        Which they are."""
        found = [
            kind for kind in self._made.values() if kind.source != _NOTHING and not kind.left_out
        ]
        left: list[str] = []
        for kind in found:
            load = self.history.load(kind.cell.model.name, self._device_type)
            if kind.seconds + load > seconds:
                kind.left_out = True
                left += kind.cells
                for fingerprint in kind.cells:
                    self.taken(fingerprint)
                    self.choice(self.shape(fingerprint)).drop(fingerprint)
        return left

    # What is asked

    def cell(self, fingerprint: str) -> Cell:
        return self._cells[fingerprint]

    def shape(self, fingerprint: str) -> Shape:
        """What the slot of a cell is to be."""
        declared = Shape(max(1, self._cells[fingerprint].need.gpus))
        return self._shapes.get(fingerprint, declared)

    def choice(self, shape: Shape) -> Choice:
        """The cells of such slots, for claims."""
        return self._choices.setdefault(shape, Choice())

    def lanes(self) -> list[Lane]:
        """What waits now, in the order in which it was first seen."""
        return [lane for lane in self._lanes.values() if lane.work.cells]

    def expected(self, cell: Cell) -> tuple[float, float] | None:
        """Seconds that the cell should take, and their spread; None where nobody knows."""
        found = self.history.of(cell, self._device_type)
        return None if found is None else (found.seconds, found.spread)

    def left_of(self, cell: Cell, elapsed: float) -> tuple[float, float] | None:
        """Seconds that a cell which began so long ago should still take, and their spread."""
        if (found := self.expected(cell)) is None:
            return None
        seconds, spread = found
        load = self.history.load(cell.model.name, self._device_type) if elapsed < 1 else 0.0
        return max(0.0, seconds + load - elapsed), spread

    def load(self, lane: Lane) -> float:
        """Seconds that its model takes to load; 0 where nobody knows."""
        return self.history.load(lane.model, self._device_type)

    def ending_within(self, lane: Lane, seconds: float, at_most: int) -> list[str]:
        """Waiting cells that should end in that time, the longest first."""
        found = [
            kind
            for kind in islice(lane.kinds, _LOOKED_AT)
            if kind.source != _NOTHING and kind.seconds <= seconds
        ]
        found.sort(key=lambda kind: -kind.seconds)
        waiting = (f for kind in found for f in kind.cells if self._waiting.get(f) is lane)
        return list(islice(waiting, at_most))

    def left(self) -> Left | None:
        """How much is left that waits; None while no time is known at all."""
        if self.history.mean is None:
            return None
        lanes = self.lanes()
        # What one estimate says of many is wrong for all of them in the same way.
        together = sum(
            spread**2 / self._known_by.get(source, 1)
            for source, spread in self._spreads.items()
            if spread > 0
        )
        few = [kind for lane in lanes if len(lane.kinds) < _LOOKED_AT for kind in lane.kinds]
        return Left(
            seconds=sum(lane.work.seconds for lane in lanes),
            variance=sum(lane.variance for lane in lanes) + together,
            longest=max((kind.seconds for kind in few), default=0.0),
            cells=sum(lane.work.cells for lane in lanes),
            loads=sum(lane.work.load for lane in lanes if not lane.work.serving),
        )

    # What happens

    def waits(self, fingerprint: str, *, until: float | None = None) -> None:
        """The cell can be claimed; from `until` on, where that is given."""
        if fingerprint not in self._cells or self._kinds[fingerprint].left_out:
            return
        if until is not None:
            self.taken(fingerprint)
            self._back_offs[fingerprint] = until
            heapq.heappush(self._later, (until, fingerprint))
            return
        self._back_offs.pop(fingerprint, None)
        if fingerprint in self._waiting:
            return
        cell, kind = self._cells[fingerprint], self._kinds[fingerprint]
        shape = self.shape(fingerprint)
        key = (shape, cell.model.load_key, cell.need)
        if (lane := self._lanes.get(key)) is None:
            known = self.history.mean is not None
            work = Work(load_key=cell.model.load_key, cells=0, seconds=0.0, known=known)
            lane = Lane(shape=shape, need=cell.need, model=cell.model.name, work=work)
            self._lanes[key] = lane
        if lane not in kind.lanes:
            kind.lanes.append(lane)
        self._waiting[fingerprint] = lane
        self._add(lane, kind, 1)
        lane.priorities[cell.priority] += 1

    def taken(self, fingerprint: str) -> None:
        """The cell cannot be claimed: somebody has it, or it has ended."""
        self._back_offs.pop(fingerprint, None)
        if (lane := self._waiting.pop(fingerprint, None)) is not None:
            self._add(lane, self._kinds[fingerprint], -1)
            lane.priorities[self._cells[fingerprint].priority] -= 1

    def move(self, fingerprint: str, shape: Shape) -> None:
        """The cell is to have another slot."""
        if (before := self.shape(fingerprint)) == shape:
            return
        waited = fingerprint in self._waiting
        back_off = self._back_offs.get(fingerprint)
        self.taken(fingerprint)
        self.choice(before).drop(fingerprint)
        self._shapes[fingerprint] = shape
        if not self._kinds[fingerprint].left_out:
            self.choice(shape).put(fingerprint, self._kinds[fingerprint].rank)
        if waited or back_off is not None:
            self.waits(fingerprint, until=back_off)

    def wake(self, now: float) -> None:
        """Cells whose back-off is over can be claimed."""
        while self._later and self._later[0][0] <= now:
            until, fingerprint = heapq.heappop(self._later)
            if self._back_offs.get(fingerprint) == until:
                self.waits(fingerprint)

    def follow(self, events: Sequence[Event], now: float) -> None:
        """What any runner or person did since the last time."""
        for event in events:
            self._seen = max(self._seen, event.seq)
            fingerprint = event.fingerprint
            if fingerprint not in self._cells:
                continue
            if event.kind in ("claimed", "cancel_asked"):
                self.taken(fingerprint)
            elif event.kind in ("released", "reaped", "retry_asked"):
                self.waits(fingerprint)
            elif event.kind == "finished":
                outcome = Outcome.from_dict(event.data["outcome"])
                if outcome.retry_in is None:
                    self.taken(fingerprint)
                else:
                    self.waits(fingerprint, until=now + outcome.retry_in)
                self.learn(self._cells[fingerprint], outcome)

    @property
    def seen(self) -> int:
        """The last event that was followed."""
        return self._seen

    def begin(self, seen: int) -> None:
        """Nothing before that event is news."""
        self._seen = seen

    def learn(self, cell: Cell, outcome: Outcome) -> None:
        """A cell ended: what is alike is expected to take as long, and ranked by it."""
        first = self.history.mean is None
        again: dict[Kind, None] = {}
        for key in self.history.learn(cell, outcome):
            if key not in self._by_source:  # the first that is known of them
                alike = self._by_key.get(key) or self._by_key.get(key[:-1]) or []
                again.update(dict.fromkeys(alike))
            again.update(dict.fromkeys(self._by_source.get(key, ())))
        for kind in again:
            self._estimate(kind)
        if first:
            self._guess()

    def estimate(self) -> None:
        """Go by all that the history learned in the meantime."""
        for kind in dict.fromkeys(self._kinds.values()):
            self._estimate(kind)
        self._guess()

    def _guess(self) -> None:
        """Until more is known of some, they are expected to take as long as the others."""
        if (mean := self.history.mean) is not None:
            for lane in self._lanes.values():
                lane.work.known = True
            for kind in dict.fromkeys(self._kinds.values()):
                if kind.source == _NOTHING:
                    self._set(kind, mean, mean, _NOTHING)

    def _estimate(self, kind: Kind) -> None:
        if (found := self.history.of(kind.cell, self._device_type)) is None:
            return
        self._by_source.setdefault(kind.source, set()).discard(kind)
        self._by_source.setdefault(found.source, set()).add(kind)
        self._known_by[found.source] = found.cells
        self._set(kind, found.seconds, found.spread, found.source)

    def _set(self, kind: Kind, seconds: float, spread: float, source: Key) -> None:
        counts = [(lane, lane.kinds[kind]) for lane in kind.lanes if lane.kinds[kind]]
        for lane, count in counts:
            self._add(lane, kind, -count)
        kind.seconds, kind.spread, kind.source = seconds, spread, source
        for lane, count in counts:
            self._add(lane, kind, count)
        rank = self._policy.rank(kind.cell, seconds)
        if rank != kind.rank and not kind.left_out:
            kind.rank = rank
            for fingerprint in kind.cells:
                self.choice(self.shape(fingerprint)).put(fingerprint, rank)

    def _add(self, lane: Lane, kind: Kind, count: int) -> None:
        """So many more of them wait; fewer where it is negative."""
        lane.kinds[kind] += count
        lane.work.cells += count
        lane.work.seconds += count * kind.seconds
        lane.variance += count * kind.spread**2
        self._spreads[kind.source] += count * kind.spread
        if not lane.kinds[kind]:
            del lane.kinds[kind]
        if not lane.work.cells:  # no rounding is left behind
            lane.work.seconds = lane.variance = 0.0
