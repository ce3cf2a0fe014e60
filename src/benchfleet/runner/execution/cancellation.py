"""Stopping what somebody cancelled while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from benchfleet.domain.event import Event
from benchfleet.errors import LedgerAway
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.worker_options import STOP_GRACE_S


class Cancellation:
    """Follows what is cancelled, and stops it."""

    def __init__(self, context: RunnerContext, slots: Slots) -> None:
        self._ledger, self._engine, self._inbox = context.ledger, context.engine, context.inbox
        self._heartbeat, self._slots = context.heartbeat, slots
        self._requested: set[str] = set()  # of which somebody asked so, since the last look

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
        """Stop what somebody cancelled after the sample at hand, whatever is asked of it then."""
        requested, self._requested = self._requested, set()
        for slot in self._slots if requested else ():
            running = slot.attempt
            if running is None or running.claim.lease.fingerprint not in requested:
                continue
            if not running.cancelled and self.has(running.claim.lease.fingerprint):
                running.cancelled, running.kill_at = True, self._inbox.now() + STOP_GRACE_S
                self._heartbeat.drop(running.claim.lease)
                self._engine.stop(slot.id, running.key)
