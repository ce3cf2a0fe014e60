"""Work stealing: a host with a free slot takes over a cell that is planned for another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.lanes import Lane
from benchfleet.runner.scheduler.placement_resolver import PlacementResolver
from benchfleet.runner.scheduler.reservations import Reservations


class WorkStealing:
    """Moves waiting cells to hosts with a free slot for which nothing else waits.

    A cell is moved if the host expects to end it, model load included, before the host of the plan
    clears its own queue or has a slot for it. Each cell is moved once at most, and only after its
    own host connected.
    """

    def __init__(
        self,
        backlog: Backlog,
        slots: Slots,
        reservations: Reservations,
        placement: PlacementResolver,
        now: Callable[[], float],
    ) -> None:
        self._backlog, self._slots, self._reservations = backlog, slots, reservations
        self._placement, self._now = placement, now

    def steal(self) -> bool:
        """Move a cell to each idle slot, and one to each host with room for another slot; whether
        any was moved."""
        if not (clears_in := self._clears_in()):
            return False
        moved = False
        for slot in self._slots.idle:
            if self._reservations.lane_for(slot) is None:
                fits, host = partial(self._fits, slot), slot.spec.host
                moved |= self._steal(clears_in, host, slot.device_type, fits, slot.load_key)
        for host in self._slots.allocator.open_hosts:
            room, device_type = partial(self._room, host), self._slots.allocator.type_of(host)
            moved |= self._steal(clears_in, host, device_type, room)
        return moved

    def _clears_in(self) -> Mapping[str, float]:
        """Seconds until each host that connected ends what is planned for it."""
        allocator, queues = self._slots.allocator, dict[str, tuple[float, int]]()
        for lane in self._backlog.lanes():
            host = lane.shape.preferred_host
            if (
                host is None
                or self._placement.is_pending_host(host)
                or not allocator.slots_of(host)
            ):
                continue
            seconds, cells = queues.get(host, (0.0, 0))
            queues[host] = seconds + lane.work.seconds, cells + lane.work.cells
        return {
            host: clears_in(seconds, cells, allocator.slots_of(host))
            * self._backlog.estimates.slowdown(allocator.type_of(host))
            for host, (seconds, cells) in queues.items()
        }

    def _steal(
        self,
        clears_in: Mapping[str, float],
        host: str,
        device_type: str,
        fits: Callable[[Lane], bool],
        loaded: str = "",
    ) -> bool:
        """Move one cell to a host that has such a device free, with this model in memory."""
        slowdown = self._backlog.estimates.slowdown(device_type)
        for lane in self._backlog.lanes():
            own = lane.shape.preferred_host
            if own is None or own == host or host in lane.shape.excluded_hosts:
                continue
            starting = self._slots.index.starting_for(lane.shape).get(lane.work.load_key, 0)
            load = 0.0 if lane.work.load_key == loaded else self._backlog.load(lane)
            takes = load + lane.work.seconds / lane.work.cells * slowdown
            if takes >= clears_in.get(own, 0.0) and not self._slots.busy_on.outlast(
                own,
                self._slots.allocator.slots_of(own),
                takes,
                self._now(),
                lambda slot: not slot.endpoint,
            ):
                continue
            if lane.work.cells <= starting or not fits(lane):
                continue
            waiting = (entry.fingerprint for entry in lane.order)
            cell = next((name for name in waiting if not self._placement.is_stolen(name)), None)
            if cell is not None:
                self._placement.steal(cell, host)
                self._backlog.reshape([cell])
                return True
        return False

    def _fits(self, slot: Slot, lane: Lane) -> bool:
        vram = self._slots.allocator.free_memory(slot.spec.devices, slot.holds)
        takes = slot.takes(lane.shape._replace(preferred_host=slot.spec.host))
        return takes and lane.need.gpus <= slot.gpus and lane.need.vram <= vram

    def _room(self, host: str, lane: Lane) -> bool:
        return self._reservations.room_for(lane, host=host) is not None


def clears_in(seconds: float, cells: int, slots: int) -> float:
    """Seconds until so many slots end these cells: half a cell for what they run now, and one cell
    at least."""
    return seconds / cells * (max(1.0, cells / slots) + 0.5)
