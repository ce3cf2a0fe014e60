"""The feed of ledger events, read once for all subscribers of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from benchfleet.domain.event import Event
from benchfleet.errors import LedgerAway
from benchfleet.ledger.base import Ledger

Reader = Callable[[Sequence[Event]], None]


class EventFeed:
    """Passes each event to its readers once, in the order of the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._last_seq = 0
        self._readers: list[Reader] = []

    def subscribe(self, reader: Reader) -> None:
        """Add a reader."""
        self._readers.append(reader)

    def start_after(self, seq: int) -> None:
        """Skip the events up to this one."""
        self._last_seq = seq

    def poll(self) -> None:
        """Pass on the events since the last call."""
        with contextlib.suppress(LedgerAway):  # read at a later call
            if events := self._ledger.events(self._last_seq):
                self._last_seq = events[-1].seq
                for reader in self._readers:
                    reader(events)
