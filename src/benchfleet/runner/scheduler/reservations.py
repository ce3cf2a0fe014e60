"""Reservations of devices for waiting cells that no open slot serves in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf

from benchfleet.domain.resource import Device
from benchfleet.runner.resources.allocator import SlotNeeds
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.durations import DurationIndex
from benchfleet.runner.scheduler.lanes import Lane
from benchfleet.runner.scheduler.time_left import seconds_left


class Reservations:
    """Keeps a cell that no open slot serves, such as one for several GPUs, from waiting forever.

    The devices that should be free first are reserved for it. A slot on them begins only cells that
    should end before the last of them is free; without known times it begins none. A reservation
    holds only against cells that are served later.
    """

    def __init__(self, slots: Slots, estimates: DurationIndex, now: Callable[[], float]) -> None:
        self._slots, self._estimates, self._now = slots, estimates, now
        self._reserved: dict[Lane, tuple[Device, ...]] = {}
        self._failed: dict[Lane, int] = {}  # for whom nothing was found, in which seats

    def clear(self) -> None:
        """Devices came or went."""
        self._reserved.clear()
        self._failed.clear()

    def room_for(self, lane: Lane, *, host: str | None = None) -> tuple[Device, ...] | None:
        """The devices for one more slot for these cells; on this `host`, or on the planned one."""
        self._end_those_over()
        return self._slots.allocator.room_for(
            _slot_needs(lane),
            without=self._devices(before=lane),
            excluded=lane.shape.excluded_hosts,
            only=lane.shape.preferred_host if host is None else host,
        )

    def reserve(self, lanes: Collection[Lane]) -> None:
        """Reserve devices for lanes that no open slot serves in time; `lanes` is all that waits, in
        the order of service."""
        lowest: dict[tuple[int, bool], int] = {}  # priority, of all that want such slots
        lanes = [lane for lane in lanes if not lane.shape.endpoint]  # its slots are all alike
        for lane in lanes:
            kind = (lane.shape.width, lane.shape.alone)
            lowest[kind] = min(lane.priority, lowest.get(kind, lane.priority))
        for lane in lanes:
            # What is to be alone waits until it holds up nobody else.
            if not (lane.shape.alone or lane in self._reserved or self._is_served(lane, lowest)):
                self._reserve(lane)

    def _reserve(self, lane: Lane) -> None:
        if self._failed.get(lane) == self._slots.allocator.version or self.room_for(lane):
            return
        devices = self._slots.allocator.earliest_free(
            _slot_needs(lane),
            free=self._ends(self._slots).__getitem__,
            without=self._devices(before=lane),
            suits=lane.shape.suits,
        )
        if devices is not None:
            self._reserved[lane] = devices
            self._failed.clear()
        else:
            self._failed[lane] = self._slots.allocator.version

    def reserved_lane(self, slot: Slot) -> Lane | None:
        """The lane that the devices of a slot are reserved for; the first of several."""
        if not self._reserved:
            return None
        self._end_those_over()
        devices = set(slot.spec.devices)
        lanes = [
            lane for lane, reserved in self._reserved.items() if not devices.isdisjoint(reserved)
        ]
        return min(lanes, key=serving_order, default=None)

    def seconds_before(self, lane: Lane) -> float:
        """How long a cell may take that begins on the devices reserved for this lane; 0 where
        nobody knows."""
        reserved = self._reserved[lane]
        ends = self._ends(self._slots.on(reserved))
        limit = max(ends[device] for device in reserved)
        return 0.0 if limit == inf else limit

    def _is_served(self, lane: Lane, lowest: Mapping[tuple[int, bool], int]) -> bool:
        """Whether a slot that is open has what such cells need, and no other slot would be given
        cells that are to go after them."""
        kind = (lane.shape.width, lane.shape.alone)
        if any(low < lane.priority for other, low in lowest.items() if other != kind):
            return False
        return self._slots.index.serves(lane.shape, lane.need)

    def _end_those_over(self) -> None:
        for lane in [lane for lane in self._reserved if not lane.work.cells]:
            self.end(lane)

    def end(self, lane: Lane) -> None:
        """These cells have a slot, or wait no more."""
        if self._reserved.pop(lane, None) is not None:
            self._failed.clear()

    def _devices(self, *, before: Lane) -> set[Device]:
        """Those that are reserved for what goes before these cells."""
        mine = serving_order(before)
        return {
            d
            for lane, devices in self._reserved.items()
            if serving_order(lane) < mine
            for d in devices
        }

    def _left_of(self, slot: Slot) -> float:
        if slot.attempt is None:
            return inf if slot.waiting_claim or not slot.ready else 0.0
        remaining = seconds_left(slot, self._estimates, self._now())
        return inf if remaining is None else remaining

    def _ends(self, slots: Iterable[Slot]) -> Mapping[Device, float]:
        """Seconds until what these slots run on each device should have ended; infinite where
        nobody knows, and 0 where there is nothing."""
        ends: defaultdict[Device, float] = defaultdict(float)
        for slot in slots:
            remaining = self._left_of(slot)
            for device in slot.spec.devices:
                ends[device] = max(ends[device], remaining)
        return ends


def serving_order(lane: Lane) -> tuple[int, ...]:
    """Who is served first: what was asked for, then what needs most."""
    shape = lane.shape
    need = (-shape.width, not shape.alone, -shape.memory, not lane.need.gpus, -lane.need.vram)
    return shape.last_resort, -lane.priority, *need


def _slot_needs(lane: Lane) -> SlotNeeds:
    """What a slot for these cells is to have."""
    return SlotNeeds(
        width=lane.shape.width,
        endpoint=lane.shape.endpoint,
        memory=max(lane.need.vram, lane.shape.memory),
        gpu=lane.need.gpus > 0,
        alone=lane.shape.alone,
        promised=lane.need.vram,
    )
