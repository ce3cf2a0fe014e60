"""One turn after the other for the channels of many slots: in a thread of its own, or in the thread
of whoever waits for what they say."""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Callable

from benchfleet.engines.base import Waiting

_MOMENT = 0.005  # seconds between two looks at what the own thread does
_TURN = 0.05  # seconds that a turn waits at most, where nobody else waits

Act = Callable[[], object]


class Serving:
    """Calls what belongs to a file descriptor whenever that can be read, or written to, and `beat`
    every `tick` seconds. A turn begins with `begin`, which is given the seconds since the last.

    `waiting` turns to it in its own thread: threads of one Python hand its lock to each other at
    every call of the system, so that one that only passes on what it reads costs more than it does.
    Where that thread is busy with something, what slots say waits in their pipes.
    """

    def __init__(
        self,
        *,
        tick: float,
        begin: Callable[[float], object],
        beat: Act,
        waiting: Waiting | None = None,
    ) -> None:
        self._tick, self._begin, self._beat, self._waiting = tick, begin, beat, waiting
        self._selector = selectors.DefaultSelector()
        self._waking, self._woken = os.pipe()
        for end in (self._waking, self._woken):
            os.set_blocking(end, False)
        self._selector.register(self._waking, selectors.EVENT_READ, self._awoke)
        self._ended = False
        self.awake = time.monotonic()  # when this turn began
        self._next_beat = self.awake + tick
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Serve from now on."""
        if self._waiting is not None:
            self._waiting.watch(self)
        else:
            self._thread = threading.Thread(target=self._serve, name="slots", daemon=True)
            self._thread.start()

    def reads(self, handle: int, act: Act) -> None:
        """Call this when there is something to read. Raises OSError."""
        self._selector.register(handle, selectors.EVENT_READ, act)

    def writes(self, handle: int, act: Act) -> None:
        """Call this when it takes something again."""
        if handle not in self._selector.get_map():
            self._selector.register(handle, selectors.EVENT_WRITE, act)

    def leave(self, handle: int) -> None:
        """See to it no more."""
        if handle >= 0 and handle in self._selector.get_map():
            self._selector.unregister(handle)

    def wake(self) -> None:
        """Have a turn begin now; from any thread."""
        # It is awake already, or has seen that all is over and is gone.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._woken, b"!")

    def fileno(self) -> int:
        return self._selector.fileno()

    def turn(self) -> float:
        self._take_turn(0.0)
        return self._until_beat()

    def go_on(self) -> bool:
        """Let a moment pass, in which what happens is seen; False where nobody sees it any more."""
        if self._thread is None:
            self._take_turn(_TURN)
            return not self._ended
        time.sleep(_MOMENT)
        return self._thread.is_alive()

    def end(self) -> None:
        """Serve no more."""
        if self._ended:
            return
        self._ended = True
        if self._waiting is not None:
            self._waiting.forget(self)
        elif self._thread is not None:
            self.wake()
            self._thread.join()
        self._selector.close()
        os.close(self._waking)
        os.close(self._woken)

    def _serve(self) -> None:
        while not self._ended:
            self._take_turn(self._until_beat())

    def _until_beat(self) -> float:
        return max(0.0, self._next_beat - time.monotonic())

    def _take_turn(self, seconds: float) -> None:
        found = self._selector.select(seconds)
        before, self.awake = self.awake, time.monotonic()
        self._begin(self.awake - before)
        for key, _ in found:
            key.data()
        if self.awake >= self._next_beat:
            self._next_beat = time.monotonic() + self._tick
            self._beat()

    def _awoke(self) -> None:
        os.read(self._waking, 4096)
