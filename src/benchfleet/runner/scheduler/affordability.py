"""Which waiting cells the budget has room for, by what they should cost where they would run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from benchfleet.domain.budget import Budget
from benchfleet.domain.resource import Need
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.lanes import Lane
from benchfleet.runner.scheduler.time_left import seconds_left

_HOUR_S = 3600.0


class Affordability:
    """Compares what is left of the budget with the expected cost of cells: their usual time and its
    usual error, at the price of a slot. Cells whose time nobody knows are taken to fit, and so are
    all cells on slots without a price in the budget's currency."""

    def __init__(
        self, budget: Budget | None, slots: Slots, backlog: Backlog, now: Callable[[], float]
    ) -> None:
        self._budget, self._slots, self._backlog, self._now = budget, slots, backlog, now

    def seconds(self, slot: Slot) -> float:
        """For how long a cell may run in this slot: what is left pays for it, and for the rest of
        what runs now. Infinite where nothing limits it."""
        rate, budget = self._rate(slot), self._budget
        if not rate or budget is None:
            return inf
        running = sum(map(self._still_costs, self._slots.busy))
        return max(0.0, budget.remaining - running) / rate * _HOUR_S

    def fitting(self, slot: Slot, names: Sequence[str], lanes: Sequence[Lane]) -> list[str]:
        """Those of the cells that fit; if none does, others of these lanes that should."""
        if (limit := self.seconds(slot)) == inf:
            return list(names)
        estimates = self._backlog.estimates
        limit /= 1 + estimates.error(1)
        fit = []
        for name in names:
            kind = estimates.kind(name)
            loaded = kind.cell.model.load_key == slot.load_key
            load = 0.0 if loaded else estimates.load(kind.cell.model.name)
            usual = estimates.expected(name, slot.device_type)
            if usual is None or usual + load <= limit:
                fit.append(name)
        return fit or self._backlog.ending_within(limit, slot.load_key, lanes, len(names))

    def note_shortest(self) -> None:
        """Tell who rents machines what the shortest waiting cells should take at most."""
        if self._budget is None:
            return
        error, shortest = self._backlog.estimates.error(1), dict[Need, float]()
        for lane in self._backlog.lanes():
            seconds = lane.shortest() and (lane.shortest() + self._backlog.load(lane)) * (1 + error)
            shortest[lane.need] = min(seconds, shortest.get(lane.need, inf))
        self._budget.spending.shortest = shortest

    def problem(self) -> str:
        """Why no waiting cell can begin: nothing runs, and all that idle slots could take should
        cost more than is left. ``""`` if that is not so."""
        if self._budget is None or not self._slots.any_idle or self._slots.any_busy:
            return ""
        if self._backlog.has_back_offs:  # such a cell may fit
            return ""
        pairs = [
            (slot, lane)
            for slot in self._slots.idle
            for lane in self._backlog.lanes()
            if slot.takes(lane.shape) and lane.need.gpus <= slot.gpus
        ]
        if not pairs or any(self._begins(slot, lane) for slot, lane in pairs):
            return ""
        return (
            f"{self._budget.remaining:.2f} {self._budget.currency} of the budget remain, and each "
            "waiting cell should cost more; raise 'budget' and run again"
        )

    def _begins(self, slot: Slot, lane: Lane) -> bool:
        """Whether some cell of the lane fits in the slot."""
        names = [entry.fingerprint for entry in lane.order[:1]]
        return bool(self.fitting(slot, names, [lane]))

    def _rate(self, slot: Slot) -> float:
        """What an hour of it costs in the currency of the budget; 0 where that is not known."""
        same = self._budget is not None and slot.rate.currency == self._budget.currency
        return (slot.rate.cost or 0.0) if same else 0.0

    def _still_costs(self, slot: Slot) -> float:
        """What the rest of its cell should cost."""
        seconds = seconds_left(slot, self._backlog.estimates, self._now())
        return (seconds or 0.0) * self._rate(slot) / _HOUR_S
