"""The port of a runner to which slots elsewhere connect, each with a key of its own."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any

from benchfleet.engines.ray_tls import Relay

HELLO_TIMEOUT_S = 5.0
MAX_HELLO_BYTES = 4096
KEY_BYTES = 16
Hello = Mapping[str, Any]


class SlotListener:
    """Accepts connections whose first line is JSON with a key that was given out.

    `connected` is called, in a thread of its own, with that line and the socket, which is the
    callee's from then on. Others are closed.
    """

    def __init__(
        self,
        address: str,
        connected: Callable[[Hello, socket.socket], None],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """With `tls` the connections are encrypted."""
        self._connected, self._tls = connected, tls
        self._keys: set[str] = set()
        self._socket = socket.create_server((address, 0), backlog=128)
        self.address: tuple[str, int] = (address, self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="slot listener", daemon=True)
        self._thread.start()

    def new_key(self) -> str:
        """A key for a slot that is to connect."""
        self._keys.add(key := secrets.token_hex(KEY_BYTES))
        return key

    def forget(self, key: str) -> None:
        """Accept nobody with this key any more."""
        self._keys.discard(key)

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(
                target=self._greet, args=(connection,), name="slot connects", daemon=True
            ).start()

    def _greet(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(HELLO_TIMEOUT_S)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            hello = json.loads(_first_line(connection))
            if not isinstance(hello, dict) or hello.get("key") not in self._keys:
                raise ValueError("unknown key")
            if isinstance(connection, ssl.SSLSocket):
                connection = Relay(connection).plain
            connection.setblocking(False)
        except (OSError, ValueError, TypeError):
            connection.close()
            return
        self._connected(hello, connection)


def _first_line(connection: socket.socket) -> bytes:
    """Read no byte more than the line: what follows is the slot's. Raises OSError, ValueError."""
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte or len(line) >= MAX_HELLO_BYTES:
            raise ValueError("no first line")
        line += byte
    return line
