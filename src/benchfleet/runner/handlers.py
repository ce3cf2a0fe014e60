"""Dispatches the events of a runner to the parts that handle them."""

from __future__ import annotations

from benchfleet.engines.base import (
    AttemptEvent,
    Done,
    Failed,
    HostAwaited,
    HostLost,
    HostReady,
    Measured,
    SlotEvent,
    SlotLost,
    SlotQuiet,
    SlotReady,
)
from benchfleet.runner.build import RunnerComponents
from benchfleet.runner.events import (
    AttemptWritten,
    Interrupted,
    LeaseLost,
    LedgerAvailable,
    LedgerDiskFull,
    LedgerUnavailable,
    MemoryMeasured,
    RunnerEvent,
    ThreadFailed,
    ThreadWarning,
)


class EventHandlers:
    """Handles every event but `LedgerChanged`, for which the loop decides when to look."""

    def __init__(self, parts: RunnerComponents) -> None:
        self._state, self._slots, self._devices = parts.state, parts.slots, parts.devices
        self._lifecycle = parts.lifecycle
        self._gates, self._autoscaler = parts.gates, parts.autoscaler
        self._host_lifecycle, self._termination = parts.host_lifecycle, parts.termination
        self._commands = parts.commands

    def handle(self, event: RunnerEvent) -> bool:
        """Whether a slot may now be free for a cell. Raises the error that ended a thread."""
        if isinstance(event, SlotEvent):  # as most are
            return self._handle_slot(event)
        if isinstance(event, AttemptWritten):
            self._gates.written(event.attempt)
            return self._lifecycle.handle_written(event)
        if isinstance(event, HostReady):
            self._host_lifecycle.host_ready(event)
            self._commands.leave_out_removed()
            return True
        if isinstance(event, HostLost):
            self._host_lifecycle.host_lost(event)
        elif isinstance(event, HostAwaited):
            self._host_lifecycle.host_awaited(event)
        elif isinstance(event, Interrupted):
            self._termination.interrupt(event)
        elif isinstance(event, LeaseLost):
            self._termination.lose(event)
        elif isinstance(event, ThreadFailed):
            raise event.error
        elif isinstance(event, LedgerDiskFull):
            self._state.disk_refused(of="ledger")
        elif isinstance(event, MemoryMeasured):
            self._autoscaler.measured(event)
        elif isinstance(event, LedgerUnavailable):
            message = (
                f"{event.why}; running cells continue, and none begins until the ledger answers"
            )
            self._state.notify("warning", message=message)
        elif isinstance(event, LedgerAvailable):
            if not event.refuses:
                self._state.notify("warning", message="the ledger answers again; going on")
        elif isinstance(event, ThreadWarning):
            self._state.notify("warning", message=event.message)
        return False

    def _handle_slot(self, event: SlotEvent) -> bool:
        if (slot := self._slots.get(event.slot)) is None:
            return False
        attempt = slot.attempt
        if isinstance(event, SlotReady):
            self._host_lifecycle.slot_ready(slot, event)
        elif isinstance(event, SlotLost):
            self._host_lifecycle.slot_lost(slot, event)
        elif isinstance(event, SlotQuiet):
            self._host_lifecycle.slot_quiet(slot, event)
            return False
        elif isinstance(event, AttemptEvent) and attempt and attempt.key == event.attempt:
            ended = self._lifecycle.handle_event(slot, attempt, event)
            if slot.spec.host and isinstance(event, Measured):
                self._autoscaler.read_memory(slot)
            if isinstance(event, Failed):
                self._gates.failed(attempt)
            if isinstance(event, Done):
                self._devices.worked(slot)
            elif isinstance(event, Failed) and not attempt.cancelled:
                self._host_lifecycle.handle_failure(
                    slot, attempt, event.failure.stage, event.failure.kind
                )
            return ended
        else:
            return False
        return True
