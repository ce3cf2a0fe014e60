"""Being told by a PostgreSQL server that something may be claimed now."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable

import psycopg
from psycopg import sql

from benchfleet.ledger.postgres.connections import Connections

_PAUSE = 5.0  # seconds until a server that was away is asked again


class Listener:
    """Calls `told`, from a thread and over a connection of its own, when some runner or person made
    cells claimable; also when it begins to listen again, since it may have missed something.

    It is no promise: whoever waits for cells looks by itself now and then, too.
    """

    def __init__(self, connections: Connections, channel: str, told: Callable[[], None]) -> None:
        self._connections, self._channel, self._told = connections, channel, told
        self._ending = threading.Event()
        self._bell, self._button = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="listening", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._button.close()
        self._thread.join()
        self._bell.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with self._connections.one() as connection, selectors.DefaultSelector() as either:
                    either.register(connection, selectors.EVENT_READ)
                    either.register(self._bell, selectors.EVENT_READ)
                    connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
                    self._told()
                    while not self._ending.is_set():
                        either.select()  # of any number: who has a thousand slots has more files
                        if any(True for _ in connection.notifies(timeout=0)):
                            self._told()
                    connection.execute("unlisten *")
            except psycopg.Error:
                self._ending.wait(_PAUSE)
