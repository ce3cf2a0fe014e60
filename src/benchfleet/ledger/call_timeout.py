"""How long each thread is patient with a store that is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Hurry:
    """What threads are hurried by; a thread that is not, waits as usual."""

    def __init__(self) -> None:
        self._own = threading.local()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """What this thread asks meanwhile is given up so soon."""
        self._own.patience = seconds
        try:
            yield
        finally:
            del self._own.patience

    def patience(self, usual: float) -> float:
        """Seconds that this thread waits."""
        found: float = getattr(self._own, "patience", usual)
        return found

    def __bool__(self) -> bool:
        return hasattr(self._own, "patience")
