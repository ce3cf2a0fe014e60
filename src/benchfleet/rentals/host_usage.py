"""Since when a rented host has nothing to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from benchfleet.engines.base import Done, EngineEvent, Failed, HostReady, SlotId, SlotLost, Stopped

_ENDS = (Done, Failed, Stopped)


class HostUsage:
    """Follows the slots of one host. `cells` counts the attempts that began there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._busy: set[SlotId] = set()
        self._slots: set[SlotId] = set()
        self._since = clock()
        self.cells = 0
        self.is_connected = False  # its slots can be opened

    def began(self, slot: SlotId, *, cell: bool = False) -> None:
        """A slot is opened, or gets a cell. A cell of another host's slot does not count."""
        with self._lock:
            if not cell:
                self._slots.add(slot)
            elif slot in self._slots:
                self._busy.add(slot)
                self.cells += 1
            self._since = self._clock()

    def follow(self, event: EngineEvent) -> None:
        """Take in an event of the host's engine."""
        with self._lock:
            self.is_connected |= isinstance(event, HostReady)
            if isinstance(event, _ENDS):
                self._busy.discard(event.slot)
            elif isinstance(event, SlotLost):
                self._busy.discard(event.slot)
                self._slots.discard(event.slot)
            self._since = self._clock()

    def idle_for(self) -> float:
        """Seconds without a cell; 0 while one runs."""
        with self._lock:
            return 0.0 if self._busy else self._clock() - self._since
