"""How long a ledger has failed without a break."""

from __future__ import annotations

import threading

MAX_GAP_S = 60.0  # between two failures of one outage


class Outage:
    """The failures of a ledger's calls. Any thread may report them; times are of one clock.

    A read that succeeds ends an outage, unless a write failed in it: a remote may serve reads and
    refuse writes. Then a write ends it, or a minute in which nothing fails.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first = self._last = 0.0
        self._open = self._refused = False
        self.answers = 0  # reads that succeeded in it

    @property
    def seconds(self) -> float:
        """From the first call that failed to the last failure; 0 without an outage."""
        with self._lock:
            return self._last - self._first if self._open else 0.0

    def failed(self, began: float, now: float, *, write: bool) -> None:
        """A call that began then fails now."""
        with self._lock:
            if not self._open or began - self._last > MAX_GAP_S:
                self._first, self._open, self._refused, self.answers = began, True, False, 0
            self._last = max(self._last, now)
            self._refused = self._refused or write

    def succeeded(self, *, write: bool) -> None:
        with self._lock:
            if write or not self._refused:
                self._open, self.answers = False, 0
            else:
                self.answers += 1
