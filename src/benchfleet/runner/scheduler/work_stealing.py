"""Work stealing: a host with a free slot takes over a cell that is planned for another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf

from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.lanes import Lane
from benchfleet.runner.scheduler.placement_resolver import PlacementResolver
from benchfleet.runner.scheduler.reservations import Reservations
from benchfleet.runner.scheduler.time_left import seconds_left


class WorkStealing:
    """Moves waiting cells to hosts that have a free slot after their own cells were served.

    A cell is moved if the host expects to end it, model load included, before the host of the plan
    ends all that runs and waits there. Each cell is moved once at most, and only after its own host
    connected.
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
        if not (ends_in := self._ends_in()):
            return False
        moved = False
        for slot in self._slots.idle:
            if self._reservations.reserved_lane(slot) is None:
                fits, host = partial(self._fits, slot), slot.spec.host
                moved |= self._steal(ends_in, host, slot.device_type, fits, slot.load_key)
        for host in self._slots.allocator.open_hosts:
            room, device_type = partial(self._room, host), self._slots.allocator.type_of(host)
            moved |= self._steal(ends_in, host, device_type, room)
        return moved

    def _ends_in(self) -> Mapping[str, float]:
        """Seconds until each host that connected ends what runs there and what is planned for
        it."""
        allocator, estimates = self._slots.allocator, self._backlog.estimates
        waits = defaultdict[str, float](float)
        for lane in self._backlog.lanes():
            host = lane.shape.preferred_host
            if host is None or self._placement.is_pending_host(host):
                continue
            if allocator.slots_of(host):
                waits[host] += lane.work.seconds
        running: dict[str, list[float]] = {host: [] for host in waits}
        for slot in self._slots.busy if waits else ():
            if slot.spec.host in running and not slot.endpoint and not slot.draining:
                remaining = seconds_left(slot, estimates, self._now(), unknown=estimates.typical)
                running[slot.spec.host].append(inf if remaining is None else remaining)
        return {
            host: shared_evenly(
                seconds * estimates.slowdown(allocator.type_of(host)),
                [*running[host], *[0.0] * (allocator.slots_of(host) - len(running[host]))],
            )
            for host, seconds in waits.items()
        }

    def _steal(
        self,
        ends_in: Mapping[str, float],
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
            if takes >= ends_in.get(own, 0.0) or lane.work.cells <= starting or not fits(lane):
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


def shared_evenly(seconds: float, free_in: Iterable[float]) -> float:
    """Seconds until slots that are free in so many seconds each have done so much work, shared so
    that all of them that take part end together."""
    ends, slots = seconds, 0
    for free in sorted(free_in):
        if slots and ends / slots <= free:
            break
        ends, slots = ends + free, slots + 1
    return ends / slots
