"""The connections of a slot on a Ray node, as a process of the engine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable

HANG_UP_GRACE_S = 2.0  # for the connections to break after Ray said that the actor is dead


class RayProcess:
    """A slot's supervisor on a node: two connections, and the actor that holds its resources.

    That both connections are closed is the surest sign of its end, and the first one.
    """

    exited: int | None = None  # its connections tell

    def __init__(
        self, frames: socket.socket, output: socket.socket, end_actor: Callable[[], None]
    ) -> None:
        self._frames, self._output, self._end_actor = frames, output, end_actor
        self.stdin, self.stderr = frames.fileno(), output.fileno()
        self.stdout = os.dup(self.stdin)
        self._dead_since: float | None = None
        self._killed = False

    def note_death(self) -> None:
        """Ray reports that the actor is dead."""
        self._dead_since = self._dead_since or time.monotonic()

    def poll(self) -> int | None:
        if self._killed:
            return -signal.SIGKILL
        if self._dead_since and time.monotonic() - self._dead_since > HANG_UP_GRACE_S:
            return -signal.SIGKILL  # a network that broke without a word
        return None

    def wait(self, seconds: float) -> None:
        """Its connections are closed, so it has ended, or nobody can tell."""

    def terminate(self) -> None:
        with contextlib.suppress(OSError):
            self._frames.shutdown(socket.SHUT_WR)  # the supervisor notices

    def kill(self) -> None:
        if not self._killed:
            self._killed = True
            for stream in (self._frames, self._output):
                with contextlib.suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)
            self._end_actor()

    def release(self) -> int | None:
        self.kill()
        os.close(self.stdout)
        self._frames.close()
        self._output.close()
        return None
