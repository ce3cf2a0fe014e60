"""Dispatches the events of a runner to the parts that handle them."""

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
from benchfleet.runner.build import Parts
from benchfleet.runner.events import (
    Concluded,
    Interrupted,
    LeaseLost,
    LedgerBack,
    LedgerGone,
    Measured,
    NoRoom,
    RunnerEvent,
    ThreadFailed,
    ThreadWarning,
)


class EventHandlers:
    """Handles every event but `LedgerChanged`, for which the loop decides when to look."""

    def __init__(self, parts: Parts) -> None:
        self._course, self._slots, self._devices = parts.course, parts.slots, parts.devices
        self._cells, self._gates, self._autoscaler = parts.cells, parts.gates, parts.autoscaler
        self._machines, self._stopping = parts.machines, parts.stopping

    def handle(self, event: RunnerEvent) -> bool:
        """Whether a slot may now be free for a cell. Raises the error that ended a thread."""
        if isinstance(event, SlotEvent):  # as most are
            return self._handle_slot(event)
        if isinstance(event, Concluded):
            self._gates.written(event.attempt)
            return self._cells.concluded(event)
        if isinstance(event, HostReady):
            self._machines.host_ready(event)
            return True
        if isinstance(event, HostLost):
            self._machines.host_lost(event)
        elif isinstance(event, Interrupted):
            self._stopping.interrupt(event)
        elif isinstance(event, LeaseLost):
            self._stopping.lose(event)
        elif isinstance(event, ThreadFailed):
            raise event.error
        elif isinstance(event, NoRoom):
            self._course.refused(of="ledger")
        elif isinstance(event, Measured):
            self._autoscaler.measured(event)
        elif isinstance(event, LedgerGone):
            told = f"{event.why}; what runs goes on, and nothing is begun until it answers"
            self._course.say("warning", message=told)
        elif isinstance(event, LedgerBack):
            self._course.say("warning", message="the ledger answers again; going on")
        elif isinstance(event, ThreadWarning):
            self._course.say("warning", message=event.message)
        return False

    def _handle_slot(self, event: SlotEvent) -> bool:
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
                self._autoscaler.heard(slot)
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
