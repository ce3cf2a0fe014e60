"""Cells that one machine takes from the one that the plan has for them."""

from __future__ import annotations

from benchfleet.runner.slots.place import Shape, pays
from benchfleet.runner.slots.seats import Seats
from benchfleet.runner.waiting.backlog import Backlog
from benchfleet.runner.waiting.lanes import Lane
from benchfleet.runner.waiting.whither import Whither


class Straying:
    """Says when that may be, and when it pays."""

    def __init__(self, backlog: Backlog, seats: Seats, whither: Whither) -> None:
        self._backlog, self._seats, self._whither = backlog, seats, whither
        self._waiting: dict[str, tuple[float, int]] = {}  # seconds and cells, by their machine

    def look(self) -> None:
        """What waits may be otherwise than it was."""
        self._waiting.clear()

    def may(self, shape: Shape) -> bool:
        """Whether another machine may take such cells: not before theirs was heard of."""
        return shape.home is not None and not self._whither.is_awaited(shape.home)

    def is_served(self, shape: Shape) -> bool:
        """Whether their own machine has anything that is to be used now."""
        return shape.home is not None and self._seats.slots_of(shape.home) > 0

    def pays(self, lane: Lane, device_type: str, *, loaded: str = "") -> bool:
        """Whether a slot on such devices, with that model, ends a cell of the lane sooner than the
        lane's own machine ends all that waits for it."""
        if not self.is_served(lane.shape):
            return True
        home, estimates = lane.shape.home or "", self._backlog.estimates
        if not self._waiting:
            self._sum_up()
        seconds, cells = self._waiting.get(home, (lane.work.seconds, lane.work.cells))
        load = 0.0 if lane.work.load_key == loaded else self._backlog.load(lane)
        mean = lane.work.seconds / lane.work.cells
        slowdown = estimates.slowdown(self._seats.type_of(home))
        return pays(
            load + mean * estimates.slowdown(device_type),
            seconds=seconds * slowdown,
            cells=cells,
            slots=self._seats.slots_of(home),
        )

    def _sum_up(self) -> None:
        for lane in self._backlog.lanes():
            if (home := lane.shape.home) is not None:
                seconds, cells = self._waiting.get(home, (0.0, 0))
                self._waiting[home] = seconds + lane.work.seconds, cells + lane.work.cells
