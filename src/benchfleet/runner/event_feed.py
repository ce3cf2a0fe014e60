"""What any runner or person did, read from the ledger once for all in a run who follow it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from benchfleet.domain.event import Event
from benchfleet.errors import LedgerAway
from benchfleet.ledger.base import Ledger

Reader = Callable[[Sequence[Event]], None]


class EventFeed:
    """Tells its readers of each event once, in the order of the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = 0
        self._readers: list[Reader] = []

    def tell(self, reader: Reader) -> None:
        """Have this one follow too."""
        self._readers.append(reader)

    def begin(self, seen: int) -> None:
        """Nothing up to that event is news."""
        self._seen = seen

    def read(self) -> None:
        """Tell what happened since the last time."""
        with contextlib.suppress(LedgerAway):  # then it is told once it is there again
            if events := self._ledger.events(self._seen):
                self._seen = events[-1].seq
                for reader in self._readers:
                    reader(events)
