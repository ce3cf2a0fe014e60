"""How long each kind of cell of a run should take, and where that ranks it: kept up to date."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import hypot

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.cell import Cell
from benchfleet.policies.base import Policy
from benchfleet.runner.waiting.expected import History, Key, Pace
from benchfleet.runner.waiting.lanes import UNKNOWN, Kind, Lane

_NOBODY_KNOWS = Pace(1.0, 0.5)  # of a type of device on which nothing ended yet


class Estimates:
    """The kinds of the cells that a runner is about. That an estimate moved is told to the kinds
    that it is of alone; `ranked` hears of each whose rank became another."""

    def __init__(
        self,
        cells: Mapping[str, Cell],
        policy: Policy,
        device_type: str,
        ranked: Callable[[Kind], None],
    ) -> None:
        self._history, self._policy = History(), policy
        self._device_type, self._ranked = device_type, ranked
        self._kinds: dict[str, Kind] = {}  # by fingerprint
        self._made: dict[tuple[object, ...], Kind] = {}
        self._most: float | None = None  # seconds of the longest that is not left out, with load
        self._by_key: dict[Key, list[Kind]] = {}
        self._by_source: dict[Key, set[Kind]] = {}
        self._known_by: dict[Key, int] = {}  # cells
        self._paces: dict[str, Pace] = {}  # by type of device, as long as nothing moves
        # Seconds that all that waits may be wrong by, by what it is known by.
        self._spreads: defaultdict[Key, float] = defaultdict(float)
        self._sort(cells)

    def take_in(self, cells: Mapping[str, Cell]) -> None:
        """Be about these cells too, which are new."""
        self._sort(cells)
        self.remember(())

    def leave_out(self, seconds: float) -> set[Kind]:
        """Leave out the kinds that should take longer; those whose time nobody knows stay. Which
        they are."""
        if self._most is not None and self._most <= seconds:
            return set()
        known = {
            kind: kind.seconds + self.load(kind.cell.model.name)
            for kind in self._made.values()
            if kind.source != UNKNOWN and not kind.left_out
        }
        found = {kind for kind, takes in known.items() if takes > seconds}
        for kind in found:
            kind.left_out = True
        self._most = max((takes for takes in known.values() if takes <= seconds), default=0.0)
        return found

    def _sort(self, cells: Mapping[str, Cell]) -> None:
        for fingerprint, cell in cells.items():
            keys = self._history.keys(cell)
            key = (keys[0], cell.workload.limit)
            if (kind := self._made.get(key)) is None:
                kind = self._made[key] = Kind(cell=cell, rank=self._policy.rank(cell, None))
                for one in keys:
                    self._by_key.setdefault(one, []).append(kind)
            self._kinds[fingerprint] = kind

    def kind(self, fingerprint: str) -> Kind:
        return self._kinds[fingerprint]

    @property
    def mean(self) -> float | None:
        """Seconds of a cell of which nothing is known; None before the first ended."""
        return self._history.mean

    def load(self, model: str) -> float:
        """Seconds that the model takes to load; 0 where nobody knows."""
        return self._history.load(model, self._device_type)

    def pace(self, device_type: str) -> Pace:
        """How many times as long cells take on such devices as is expected of their kinds."""
        if device_type == self._device_type:
            return Pace()
        if device_type not in self._paces:
            found = self._history.pace(device_type, self._device_type)
            self._paces[device_type] = found or _NOBODY_KNOWS
        return self._paces[device_type]

    def left_of(
        self, fingerprint: str, elapsed: float, device_type: str | None = None
    ) -> tuple[float, float] | None:
        """Seconds that a cell which began so long ago on such a device (None: somewhere) should
        still take, and their spread; None where nobody knows."""
        kind = self._kinds[fingerprint]
        if kind.source == UNKNOWN:
            return None
        device = self._device_type if device_type is None else device_type
        load = self._history.load(kind.cell.model.name, device) if elapsed < 1 else 0.0
        seconds, spread = self._takes(kind, device)
        return max(0.0, seconds + load - elapsed), spread

    def _takes(self, kind: Kind, device_type: str) -> tuple[float, float]:
        """Seconds on such a device, and their spread."""
        if device_type == self._device_type:
            return kind.seconds, kind.spread
        found = self._history.of(kind.cell, device_type)
        if found is not None and found.there:
            return found.seconds, found.spread
        pace = self.pace(device_type)
        return kind.seconds * pace.factor, hypot(kind.spread, kind.seconds * pace.spread)

    def variance(self) -> float:
        """What all that waits may be wrong by together: what one estimate says of many is wrong for
        all of them in the same way."""
        return sum(
            spread**2 / self._known_by.get(source, 1)
            for source, spread in self._spreads.items()
            if spread > 0
        )

    def count(self, kind: Kind, cells: int) -> None:
        """So many more of them wait; fewer where it is negative."""
        self._spreads[kind.source] += cells * kind.spread

    def remember(self, ended: Iterable[tuple[Cell, Outcome]]) -> None:
        """Learn from earlier runs, all at once."""
        for cell, outcome in ended:
            self._history.learn(cell, outcome)
        self._paces.clear()
        for kind in self._made.values():
            self._estimate(kind)
        self._guess()

    def learn(self, cell: Cell, outcome: Outcome) -> None:
        """A cell ended: what is alike is expected to take as long, and ranked by it."""
        first = self._history.mean is None
        again: dict[Kind, None] = {}
        for key in self._history.learn(cell, outcome):
            self._paces.clear()
            if key not in self._by_source:  # the first that is known of them
                alike = self._by_key.get(key) or self._by_key.get(key[:-1]) or []
                again.update(dict.fromkeys(alike))
            again.update(dict.fromkeys(self._by_source.get(key, ())))
        for kind in again:
            self._estimate(kind)
        if first:
            self._guess()

    def _guess(self) -> None:
        """Until more is known of some, they are expected to take as long as the others."""
        if (mean := self._history.mean) is not None:
            for kind in self._made.values():
                for lane in kind.lanes:
                    lane.work.known = True
                if kind.source == UNKNOWN:
                    self._set(kind, mean, mean, UNKNOWN)

    def _estimate(self, kind: Kind) -> None:
        if (found := self._history.of(kind.cell, self._device_type)) is None:
            return
        self._by_source.setdefault(kind.source, set()).discard(kind)
        self._by_source.setdefault(found.source, set()).add(kind)
        self._known_by[found.source] = found.cells
        self._set(kind, found.seconds, found.spread, found.source)

    def _set(self, kind: Kind, seconds: float, spread: float, source: Key) -> None:
        waiting = [(lane, len(lane.kinds[kind])) for lane in kind.lanes if kind in lane.kinds]
        self._move(kind, waiting, -1)
        kind.seconds, kind.spread, kind.source = seconds, spread, source
        self._most = None
        self._move(kind, waiting, 1)
        if (rank := self._policy.rank(kind.cell, seconds)) != kind.rank:
            kind.rank = rank
            self._ranked(kind)

    def _move(self, kind: Kind, waiting: Iterable[tuple[Lane, int]], sign: int) -> None:
        for lane, cells in waiting:
            lane.count(kind, sign * cells)
            self.count(kind, sign * cells)
