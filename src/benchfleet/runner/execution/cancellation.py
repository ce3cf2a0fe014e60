"""Stopping what somebody cancelled while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from benchfleet.domain.event import Event
from benchfleet.errors import LedgerAway
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots

CANCEL_GRACE_S = 30.0  # seconds that a cancelled cell has to stop after the sample at hand


class Cancellation:
    """Follows what is cancelled; `abandon` ends an attempt of which nothing is to be published."""

    def __init__(
        self, context: RunnerContext, slots: Slots, abandon: Callable[[Attempt], None]
    ) -> None:
        self._ledger, self._engine, self._inbox = context.ledger, context.engine, context.inbox
        self._heartbeat, self._slots, self._abandon = context.heartbeat, slots, abandon
        self._requested: set[str] = set()  # of which somebody asked so, since the last look
        self._stopping: list[tuple[Slot, Attempt]] = []  # as they were asked to

    def follow(self, events: Sequence[Event]) -> None:
        """What happened; what is cancelled is stopped at the next look."""
        self._requested.update(e.fingerprint for e in events if e.kind == "cancel_asked")

    def has(self, fingerprint: str) -> bool:
        """Whether the cell is cancelled, as far as the ledger can be asked."""
        with contextlib.suppress(LedgerAway):
            return any(self._ledger.cells(states=["cancelled"], fingerprints=[fingerprint]))
        self._requested.add(fingerprint)  # to be asked again
        return False

    def look(self) -> None:
        """Stop what somebody cancelled after the sample at hand, and end what does not stop."""
        stopping, self._stopping = self._stopping, []
        for slot, attempt in stopping:
            if slot.attempt is not attempt or attempt.cancelled_at is None:
                continue
            if self._inbox.now() - attempt.cancelled_at > CANCEL_GRACE_S:
                self._slots.kill(slot)  # whatever was asked of its cell since
                self._abandon(attempt)
            else:
                self._stopping.append((slot, attempt))
        requested, self._requested = self._requested, set()
        for slot in self._slots if requested else ():
            running = slot.attempt
            if running is None or running.claim.lease.fingerprint not in requested:
                continue
            if running.cancelled_at is None and self.has(running.claim.lease.fingerprint):
                running.cancelled_at = self._inbox.now()
                self._heartbeat.drop(running.claim.lease)
                self._stopping.append((slot, running))
                self._engine.stop(slot.id, running.key)
