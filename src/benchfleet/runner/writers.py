"""The threads that write and sync results while the loop goes on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Work = Callable[[], None]


class Writers:
    """Does what it is given soon, in the order in which that came, several at a time. What is
    given raises nothing."""

    def __init__(self, count: int) -> None:
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"results-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def give(self, work: Work) -> None:
        self._work.put(work)

    def close(self) -> None:
        """Return when all that was given is done."""
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
