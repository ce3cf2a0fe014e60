"""What arrives in a runner's inbox, handed to who sees to it."""

from __future__ import annotations

from benchfleet.engines.base import (
    AttemptEvent,
    Done,
    Failed,
    HostLost,
    HostReady,
    SlotEvent,
    SlotLost,
    SlotQuiet,
    SlotReady,
)
from benchfleet.engines.base import Measured as Read
from benchfleet.runner.inbox import (
    Arrival,
    Broken,
    Concluded,
    Interrupted,
    LeaseLost,
    LedgerBack,
    LedgerGone,
    Measured,
    NoRoom,
    Said,
)
from benchfleet.runner.parts import Parts


class Hearing:
    """Hands on what arrives; `Changed` alone is left to the loop, which decides when it looks."""

    def __init__(self, parts: Parts) -> None:
        self._course, self._slots, self._devices = parts.course, parts.slots, parts.devices
        self._cells, self._gates, self._crowd = parts.cells, parts.gates, parts.crowd
        self._machines, self._stopping = parts.machines, parts.stopping

    def take(self, arrival: Arrival) -> bool:
        """Hand it on; whether that may leave room for a cell. Raises what broke a thread."""
        if isinstance(arrival, SlotEvent):  # as most are
            return self._heard(arrival)
        if isinstance(arrival, Concluded):
            self._gates.written(arrival.attempt)
            return self._cells.concluded(arrival)
        if isinstance(arrival, HostReady):
            self._machines.host_ready(arrival)
            return True
        if isinstance(arrival, HostLost):
            self._machines.host_lost(arrival)
        elif isinstance(arrival, Interrupted):
            self._stopping.interrupt(arrival)
        elif isinstance(arrival, LeaseLost):
            self._stopping.lose(arrival)
        elif isinstance(arrival, Broken):
            raise arrival.error
        elif isinstance(arrival, NoRoom):
            self._course.refused(of="ledger")
        elif isinstance(arrival, Measured):
            self._crowd.measured(arrival)
        elif isinstance(arrival, LedgerGone):
            told = f"{arrival.why}; what runs goes on, and nothing is begun until it answers"
            self._course.say("warning", message=told)
        elif isinstance(arrival, LedgerBack):
            self._course.say("warning", message="the ledger answers again; going on")
        elif isinstance(arrival, Said):
            self._course.say("warning", message=arrival.message)
        return False

    def _heard(self, event: SlotEvent) -> bool:
        """What a slot says, or was seen of it; whether that may leave room for a cell."""
        if (slot := self._slots.get(event.slot)) is None:
            return False
        attempt = slot.attempt
        if isinstance(event, SlotReady):
            self._machines.slot_ready(slot, event)
        elif isinstance(event, SlotLost):
            self._machines.slot_lost(slot, event)
        elif isinstance(event, SlotQuiet):
            self._machines.slot_quiet(slot, event)
            return False
        elif isinstance(event, AttemptEvent) and attempt and attempt.key == event.attempt:
            ended = self._cells.take(slot, attempt, event)
            if slot.spec.host and isinstance(event, Read):
                self._crowd.heard(slot)
            if isinstance(event, Failed):
                self._gates.failed(attempt)
            if isinstance(event, Done):
                self._devices.worked(slot)
            elif isinstance(event, Failed) and attempt.cancelled_at is None:
                self._machines.heed(slot, attempt, event.failure.stage, event.failure.kind)
            return ended
        else:
            return False
        return True
