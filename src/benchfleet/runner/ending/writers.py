"""The threads that write and sync results while the loop goes on."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

Work = Callable[[], None]

_AT_ONCE = 1  # threads that take what comes; threads of one Python hold each other up
_BEHIND = 2  # times as much as is done at once may wait for these: where more does, others help
_LONG = 0.5  # seconds at one thing, a large result say: others help with what comes meanwhile


class Writers:
    """Does what it is given soon, several at a time: where one thread serves, in the order in which
    that came. What is given raises nothing. Who is given one thing may do as many as `together`."""

    def __init__(
        self, count: int, *, together: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._since: float | None = None  # when the first thread began what it does now
        self._behind = _BEHIND * together
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._more: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(
                target=self._serve,
                args=(self._work if number < _AT_ONCE else self._more,),
                name=f"results-{number}",
                daemon=True,
            )
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def give(self, work: Work) -> None:
        since = self._since
        late = since is not None and self._clock() - since > _LONG
        helped = len(self._threads) > _AT_ONCE and (late or self._work.qsize() >= self._behind)
        (self._more if helped else self._work).put(work)

    def close(self) -> None:
        """Return when all that was given is done."""
        for number in range(len(self._threads)):
            (self._work if number < _AT_ONCE else self._more).put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self, given: queue.SimpleQueue[Work | None]) -> None:
        first = given is self._work
        while (work := given.get()) is not None:
            if first:
                self._since = self._clock()
            work()
            if first:
                self._since = None
