"""The expected time and rank of each kind of cell of a run, updated as cells end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.cell import Cell
from benchfleet.policies.base import Policy
from benchfleet.runner.scheduler.duration_model import DurationModel, Key, size
from benchfleet.runner.scheduler.lanes import Kind


class DurationIndex:
    """The kinds of the cells of one runner. `ranked` is called for each kind whose rank changes."""

    def __init__(
        self,
        cells: Mapping[str, Cell],
        policy: Policy,
        device_type: str,
        ranked: Callable[[Kind], None],
    ) -> None:
        self._model, self._policy = DurationModel(), policy
        self._device_type, self._ranked = device_type, ranked
        self._by_cell: dict[str, Kind] = {}  # by fingerprint
        self._kinds: dict[tuple[Key, float], Kind] = {}
        self._by_key: dict[Key, list[Kind]] = {}  # by each of the keys of their cells
        self._slowdowns: dict[str, float] = {}  # by type of device, until another cell ends
        self._limited = True  # all cells have a limit of samples, as in a trial
        self.add_cells(cells)

    def add_cells(self, cells: Mapping[str, Cell]) -> None:
        """Add cells."""
        self._limited &= all(cell.workload.limit is not None for cell in cells.values())
        for fingerprint, cell in cells.items():
            keys = self._model.keys(cell)
            key = keys[0], size(cell)
            if (kind := self._kinds.get(key)) is None:
                kind = self._kinds[key] = Kind(cell=cell, rank=self._policy.rank(cell, None))
                for one in keys:
                    self._by_key.setdefault(one, []).append(kind)
                self._estimate(kind)
            self._by_cell[fingerprint] = kind

    def kind(self, fingerprint: str) -> Kind:
        """The kind of a cell."""
        return self._by_cell[fingerprint]

    def drop_longer_than(self, seconds: float) -> set[Kind]:
        """Leave out the kinds that should take longer, and return them. Those of unknown time
        stay."""
        longer = {
            kind
            for kind in self._kinds.values()
            if kind.has_estimate and not kind.dropped
            if kind.seconds + self.load(kind.cell.model.name) > seconds
        }
        for kind in longer:
            kind.dropped = True
        return longer

    # What is expected

    @property
    def typical(self) -> float | None:
        """Seconds of a cell of which nothing is known; None before the first ended. Trials do not
        count where whole cells run."""
        return self._model.typical(limited=self._limited)

    def load(self, model: str, device_type: str | None = None) -> float:
        """Seconds that the model takes to load on such a device; 0 where nobody knows."""
        return self._model.load(model, self._device_type if device_type is None else device_type)

    def slowdown(self, device_type: str) -> float:
        """How many times as long cells take on such devices as is expected of their kinds."""
        if device_type == self._device_type:
            return 1.0
        if device_type not in self._slowdowns:
            slowdown = self._model.slowdown(device_type, self._device_type)
            self._slowdowns[device_type] = slowdown or 1.0
        return self._slowdowns[device_type]

    def expected(self, fingerprint: str, device_type: str | None = None) -> float | None:
        """Seconds that the cell should take on such a device, its model being loaded; None where
        nobody knows."""
        kind = self._by_cell[fingerprint]
        device = self._device_type if device_type is None else device_type
        return self._seconds(kind, device) if kind.has_estimate else None

    def error(self, cells: int) -> float:
        """What the expected time of so many cells together is off by, as a part of it."""
        return self._model.error(cells)

    def _seconds(self, kind: Kind, device_type: str) -> float:
        if device_type == self._device_type:
            return kind.seconds
        expected = self._model.expected(kind.cell, device_type)
        if expected is not None and expected.same_device:
            return expected.seconds
        return kind.seconds * self.slowdown(device_type)

    # What ended

    def remember(self, ended: Iterable[tuple[Cell, Outcome]]) -> None:
        """Learn from earlier runs."""
        for cell, outcome in ended:
            self._model.learn(cell, outcome)
        self._slowdowns.clear()
        self._estimate_all()

    def learn(self, cell: Cell, outcome: Outcome) -> None:
        """Learn from a cell that ended now."""
        first = self.typical is None
        changed = self._model.learn(cell, outcome)
        self._slowdowns.clear()
        affected = (kind for key in changed for kind in self._by_key.get(key, ()))
        for kind in dict.fromkeys(affected):
            self._estimate(kind)
        if first:
            self._estimate_all()

    def _estimate_all(self) -> None:
        for kind in self._kinds.values():
            self._estimate(kind)

    def _estimate(self, kind: Kind) -> None:
        """Expect what is known of its like, or what is typical."""
        expected = self._model.expected(kind.cell, self._device_type)
        seconds = expected.seconds if expected else self.typical
        if seconds is None:
            return
        waiting = [(lane, len(lane.kinds[kind])) for lane in kind.lanes if kind in lane.kinds]
        for lane, cells in waiting:
            lane.count(kind, -cells)
        kind.seconds, kind.has_estimate = seconds, expected is not None
        for lane, cells in waiting:
            lane.count(kind, cells)
        if (rank := self._policy.rank(kind.cell, seconds)) != kind.rank:
            kind.rank = rank
            self._ranked(kind)
