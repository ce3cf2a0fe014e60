"""Listens for the server's notification that cells became claimable."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable

import psycopg
from psycopg import sql

from benchfleet.ledger.postgres.connections import Connections

_RETRY_S = 5.0  # until a server that was away is asked again


class Listener:
    """Calls `changed`, from a thread and over a connection of its own, when a runner or a person
    made cells claimable; also when it begins to listen again, since it may have missed something.

    It is no promise: runners poll too.
    """

    def __init__(self, connections: Connections, channel: str, changed: Callable[[], None]) -> None:
        self._connections, self._channel, self._changed = connections, channel, changed
        self._closing = threading.Event()
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="listening", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._waker.close()
        self._thread.join()
        self._wake.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with self._connections.one() as connection, selectors.DefaultSelector() as either:
                    either.register(connection, selectors.EVENT_READ)
                    either.register(self._wake, selectors.EVENT_READ)
                    connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
                    self._changed()
                    while not self._closing.is_set():
                        either.select()  # not select(): files may have numbers above 1024
                        if any(True for _ in connection.notifies(timeout=0)):
                            self._changed()
                    connection.execute("unlisten *")
            except psycopg.Error:
                self._closing.wait(_RETRY_S)
