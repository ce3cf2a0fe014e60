"""Devices that are booked for cells which need more than is ever free at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from benchfleet.domain.resource import Device
from benchfleet.runner.backlog import Backlog, Lane
from benchfleet.runner.place import Shape
from benchfleet.runner.slots import Slot, Slots


class Bookings:
    """Keeps a cell that needs several GPUs, or much of one, from waiting for ever.

    Where no open slot could take such a cell, the devices that should be free first are booked for
    it. A slot on them begins only what should end before the last of them is free: without known
    times nothing, so that the cell waits for what runs there now and no longer. A booking holds
    against what is served later alone.
    """

    def __init__(self, slots: Slots, backlog: Backlog, now: Callable[[], float]) -> None:
        self._slots, self._backlog, self._now = slots, backlog, now
        self._booked: dict[Lane, tuple[Device, ...]] = {}

    def clear(self) -> None:
        """Devices came or went."""
        self._booked.clear()

    def room_for(self, lane: Lane) -> tuple[Device, ...] | None:
        """The devices for one more slot for these cells, which ends their booking."""
        self._end_those_over()
        devices = self._slots.seats.room_for(
            lane.shape.width,
            max(lane.need.vram, lane.shape.memory),
            gpu=lane.need.gpus > 0,
            alone=lane.shape.alone,
            need=lane.need.vram,
            without=self._devices(before=lane),
        )
        if devices is not None:
            self._booked.pop(lane, None)
        return devices

    def book(self, lane: Lane, waiting: Mapping[Shape, Sequence[Lane]]) -> None:
        """Book devices for these cells, where nothing that is open would serve them in time."""
        shape, need = lane.shape, lane.need
        if shape.alone:  # it waits until it holds up nobody else
            return
        first = any(
            other.priority < lane.priority
            for kind, lanes in waiting.items()
            if (kind.width, kind.alone) != (shape.width, shape.alone)
            for other in lanes
        )
        if lane in self._booked or (not first and self._is_served(lane)) or self.room_for(lane):
            return
        ends = self._ends()
        devices = self._slots.seats.soonest(
            shape.width,
            max(need.vram, shape.memory),
            gpu=need.gpus > 0,
            free=lambda device: ends.get(device, 0.0),
            without=self._devices(before=lane),
        )
        if devices is not None:
            self._booked[lane] = devices

    def lane_for(self, slot: Slot) -> Lane | None:
        """Whom the devices of a slot are booked for; the first of several."""
        self._end_those_over()
        here = set(slot.spec.devices)
        lanes = [lane for lane, booked in self._booked.items() if not here.isdisjoint(booked)]
        return min(lanes, key=service, default=None)

    def seconds_before(self, lane: Lane) -> float:
        """How long a cell may take that begins on the devices booked for this lane; 0 where
        nobody knows."""
        ends = self._ends()
        limit = max(ends.get(device, 0.0) for device in self._booked[lane])
        return 0.0 if limit == inf else limit

    def _is_served(self, lane: Lane) -> bool:
        """Whether a slot that is open has what such cells need."""
        need = lane.need
        return any(
            slot.gpus >= need.gpus and slot.holds >= need.vram
            for slot in self._slots.of_shape(lane.shape)
        )

    def _end_those_over(self) -> None:
        for lane in [lane for lane in self._booked if not lane.work.cells]:
            del self._booked[lane]

    def _devices(self, *, before: Lane) -> set[Device]:
        """Those that are booked for what goes before these cells."""
        mine = service(before)
        return {
            d for lane, devices in self._booked.items() if service(lane) < mine for d in devices
        }

    def _left_of(self, slot: Slot) -> float:
        if slot.attempt is None:
            return inf if slot.reserved or not slot.ready else 0.0
        left = self._backlog.left_of(slot.attempt.claim.cell, self._now() - slot.attempt.began)
        return inf if left is None else left[0]

    def _ends(self) -> dict[Device, float]:
        """Seconds until the cells on each device should have ended; infinite where nobody knows."""
        found: dict[Device, float] = {}
        for slot in self._slots:
            left = self._left_of(slot)
            for device in slot.spec.devices:
                found[device] = max(found.get(device, 0.0), left)
        return found


def service(lane: Lane) -> tuple[int, ...]:
    """Who is served first: what was asked for, then what needs most."""
    shape = lane.shape
    need = (-shape.width, not shape.alone, -shape.memory, not lane.need.gpus, -lane.need.vram)
    return shape.late, -lane.priority, *need
