"""Limits how long the calls of one thread wait for a store that is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CallTimeout:
    """The limit of each thread."""

    def __init__(self) -> None:
        self._thread = threading.local()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit this thread's calls to so many seconds in this context, also inside of another."""
        before = vars(self._thread).copy()
        self._thread.seconds = seconds
        try:
            yield
        finally:
            del self._thread.seconds
            vars(self._thread).update(before)

    def seconds(self, default: float) -> float:
        """The limit of this thread; `default` where it has none."""
        limit: float = getattr(self._thread, "seconds", default)
        return limit

    @property
    def is_set(self) -> bool:
        """Whether this thread has a limit."""
        return hasattr(self._thread, "seconds")
