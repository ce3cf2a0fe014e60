"""The thread in which an engine reads what its slots say, and checks on them."""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections.abc import Callable

Act = Callable[[], object]


class IoLoop:
    """Calls what belongs to a file descriptor whenever that is ready, and `check` every so many
    seconds, with the time at which its turn began."""

    def __init__(self, *, every: float, check: Callable[[float], object]) -> None:
        self._every, self._check = every, check
        self._selector = selectors.DefaultSelector()
        self._ended = False
        self._waking, self._woken = os.pipe()
        self._selector.register(self._waking, selectors.EVENT_READ, lambda: None)
        self._next_check = time.monotonic() + every
        self._thread = threading.Thread(target=self._serve, name="slots", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def add_reader(self, handle: int, act: Act) -> None:
        """Call this when there is something to read. Raises OSError."""
        self._selector.register(handle, selectors.EVENT_READ, act)

    def add_writer(self, handle: int, act: Act) -> None:
        """Call this when it takes something again."""
        if handle not in self._selector.get_map():
            self._selector.register(handle, selectors.EVENT_WRITE, act)

    def remove(self, handle: int) -> None:
        """Call nothing for it any more."""
        if handle >= 0 and handle in self._selector.get_map():
            self._selector.unregister(handle)

    def end(self) -> None:
        """Return when the thread has ended."""
        if self._ended:
            return
        self._ended = True
        os.write(self._woken, b"!")
        self._thread.join()
        self._selector.close()
        os.close(self._waking)
        os.close(self._woken)

    def _serve(self) -> None:
        while not self._ended:
            ready = self._selector.select(max(0.0, self._next_check - time.monotonic()))
            now = time.monotonic()
            for key, _ in ready:
                key.data()
            if now >= self._next_check:
                self._next_check = time.monotonic() + self._every
                self._check(now)
