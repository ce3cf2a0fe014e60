"""A line to a server that tests cut and hold."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress


class Line:
    """A loopback proxy to a server: its connections can be cut in the middle of whatever they say,
    and held so that neither side hears the other."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._drop_answers = 0
        self.held = False  # whether neither side hears the other
        threading.Thread(target=self._accept, daemon=True).start()
        self._mover = threading.Thread(target=self._move, daemon=True)
        self._mover.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._pairs |= {near: far, far: near}

    def _move(self) -> None:
        while not self._closed:
            with self._lock:
                ends = list(self._pairs)
            if not ends or self.held:
                time.sleep(0.01)
                continue
            with suppress(OSError, ValueError):
                for end in select.select(ends, [], [], 0.01)[0]:
                    self._pass_on(end)

    def _pass_on(self, end: socket.socket) -> None:
        other = self._pairs.get(end)
        try:
            output = end.recv(65536)
            if other is None or not output:
                raise OSError
            if self._drop_answers and other.getpeername()[1] != self._target:
                self._drop_answers -= 1
                raise OSError
            other.sendall(output)
        except OSError:
            self._end(end)

    def _end(self, end: socket.socket) -> None:
        with self._lock:
            other = self._pairs.pop(end, None)
            if other is not None:
                self._pairs.pop(other, None)
        for one in (end, other):
            if one is not None:
                one.close()

    def wait_for_somebody(self) -> None:
        """Until there is a connection."""
        while not self._pairs:
            time.sleep(0.01)

    def cut(self) -> None:
        """Break every connection there is."""
        with self._lock:
            ends = list(self._pairs)
        for end in ends:
            self._end(end)

    def drop_next_answer(self) -> None:
        """The server does what it is asked next, and the line breaks before it says so."""
        self._drop_answers = 1

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        self._mover.join()
        self.cut()
