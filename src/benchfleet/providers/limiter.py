"""Spaces the requests to a provider, and learns from its refusals."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

_SLACK = 1.1
_FIRST_S, _MAX_S = 1.0, 60.0  # between requests, where the provider names no number
_THRESHOLD = re.compile(r"threshold\"?\s*[=:]\s*\"?([\d.]+)")


class Limiter:
    """Seconds between two requests to one endpoint, counted from the end of the last answer.

    Each endpoint has its own lane, so requests to destroy never wait behind lists. A provider with
    one limit for all of them gives all one interval, under the name ``""``.
    """

    def __init__(
        self,
        intervals: Mapping[str, float],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._intervals = dict(intervals)
        self._clock, self._sleep = clock, sleep
        self._locks: dict[str, threading.Lock] = {}
        self._next: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def request(self, endpoint: str) -> Iterator[None]:
        """Wait until a request may be sent, which the block does."""
        lane = endpoint if endpoint in self._intervals else ""
        with self._lock:
            lock = self._locks.setdefault(lane, threading.Lock())
        with lock:
            if (wait := self._next.get(lane, 0.0) - self._clock()) > 0:
                self._sleep(wait)
            try:
                yield
            finally:
                interval = self._intervals.get(lane, 0.0) * _SLACK
                self._next[lane] = self._clock() + interval

    def refused(self, endpoint: str, text: str, retry_after: str = "") -> float:
        """Learn from a refusal: seconds until the next request may be sent."""
        lane = endpoint if endpoint in self._intervals else ""
        before = self._intervals.get(lane, 0.0)
        if match := _THRESHOLD.search(text):
            self._intervals[lane] = max(before, min(float(match[1]), _MAX_S))
        else:
            self._intervals[lane] = min(max(2 * before, _FIRST_S), _MAX_S)
        pause = self._intervals[lane] * _SLACK
        if retry_after.isdecimal():
            pause = max(pause, min(float(retry_after), _MAX_S))
        return pause
