"""Connections to a PostgreSQL server: opened as needed, and tried again when they break."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import Any, TypeVar

import psycopg
from psycopg import Connection, conninfo, sql
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from benchfleet.errors import LedgerError
from benchfleet.ledger.addresses import has_reserved_characters
from benchfleet.ledger.call_timeout import CallTimeout
from benchfleet.ledger.postgres.errors import (
    error_text,
    is_transient,
    ledger_error,
    opening_timeout,
    write_timeout,
)
from benchfleet.ledger.postgres.queries import run

RETRY_TIMEOUT_S = 120.0  # for a server that restarts or fails over
_PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)  # between tries; the last one stays
_DEFAULTS = {  # what a URL does not say; a server that is gone is noticed within half a minute
    "application_name": "benchfleet",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_STATEMENT_TIMEOUT = "60s"  # none takes a second but those on a million cells
_IDLE_TIMEOUT = "60s"  # a writer that was stopped in the middle of a transaction is cut off
_MAX_IDLE_CONNECTIONS = 4
_POOLER_PROBES = 5  # looks at the server's process that tell a pooler
T = TypeVar("T")


class Connections:
    """The connections of one ledger, all of them in the campaign's schema."""

    def __init__(
        self,
        url: str,
        label: str,
        schema: str,
        *,
        timeout: float = RETRY_TIMEOUT_S,
        call_timeout: CallTimeout | None = None,
    ) -> None:
        self._url, self._label, self._schema, self._timeout = url, label, schema, timeout
        if has_reserved_characters(url):
            raise LedgerError(
                f"the password in the address of {label} has reserved characters: write @ / % and "
                "blanks as %40 %2F %25 %20, or keep it in ~/.pgpass or PGPASSWORD"
            )
        try:
            options = conninfo.conninfo_to_dict(url)
            defaults = {name: value for name, value in _DEFAULTS.items() if name not in options}
            self._conninfo = conninfo.make_conninfo(url, **defaults, client_encoding="utf8")
        except psycopg.ProgrammingError as error:
            raise LedgerError(
                f"{label} is not an address of a ledger: {error_text(error, url)}"
            ) from None
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = threading.Event()
        self._call_timeout = call_timeout or CallTimeout()

    def close(self) -> None:
        self._closed.set()
        self._close_idle()

    def with_retry(self, ask: Callable[[Connection], T]) -> T:
        """What `ask` returns; where its connection breaks, it is called again with another one
        until patience ends. It must be one transaction, and do no harm when it is repeated.

        Raises LedgerUnreachable, or what it becomes in plain words.
        """
        connection, answer = self._ask(ask)
        self._give_back(connection)
        return answer

    @contextmanager
    def borrow(self, ask: Callable[[Connection], T]) -> Iterator[T]:
        """The same, with the connection kept for further reads. Raises as `with_retry` does."""
        connection, answer = self._ask(ask)
        try:
            yield answer
        except psycopg.Error as error:
            raise self._ledger_error(error) from error
        finally:
            self._give_back(connection)

    def _ask(self, ask: Callable[[Connection], T]) -> tuple[Connection, T]:
        """What `ask` returns, and the connection that it used, which the caller gives back."""
        began, timeout = time.monotonic(), self._call_timeout.seconds(self._timeout)
        pauses = chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        while True:
            connection, was_idle, tried = None, False, time.monotonic()
            try:
                connection, was_idle = self._take()
                return connection, ask(connection)
            except BaseException as error:
                if connection is not None:
                    self._give_back(connection)
                if not isinstance(error, psycopg.Error):
                    raise
                # A connection that broke while it was idle says nothing of the server.
                pause = 0.0 if was_idle else next(pauses)
                # Time that this process slept is no waiting: only `tried` to now counts.
                until = began + min(timeout, write_timeout(error, connection))
                late = not was_idle and tried + pause > until
                if late or not is_transient(error):
                    raise self._ledger_error(error) from error
                self._close_idle()  # most likely they broke too
                if self._closed.wait(pause):
                    raise self._ledger_error(error) from error

    @contextmanager
    def one(self) -> Iterator[Connection]:
        """A connection that nobody else uses meanwhile. Raises psycopg.Error."""
        connection, _ = self._take()
        try:
            yield connection
        finally:
            self._give_back(connection)

    def check(self) -> None:
        """Connect, with patience for a server that restarts, and little for one that is not there.
        Raises LedgerUnreachable with the server's words, and LedgerError for a pooler that does not
        give whole sessions."""
        began, pauses = time.monotonic(), chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        while True:
            tried = time.monotonic()  # what passes while we are stopped is no waiting
            try:
                with self.one() as connection:
                    self._refuse_pooler(connection)
                    return
            except psycopg.Error as error:
                pause = next(pauses)
                wait = opening_timeout(error, self._timeout)
                if tried + pause - began > wait or self._closed.wait(pause):
                    raise self._ledger_error(error) from error

    def _refuse_pooler(self, connection: Connection) -> None:
        """Settings, prepared statements and `listen` belong to a session. A pooler that gives whole
        sessions shows each connection one process of the server, and no other connection the
        same."""
        if _process_of(connection) == connection.info.backend_pid:
            return  # no pooler: it gives numbers of its own
        with self.one() as other:
            probes = [(_process_of(connection), _process_of(other)) for _ in range(_POOLER_PROBES)]
        mine, others = ({probe[n] for probe in probes} for n in (0, 1))
        if len(mine) > 1 or mine & others:
            raise LedgerError(
                f"{self._label} goes through a transaction pooler. benchfleet needs session "
                "pooling (PgBouncer: `pool_mode = session`) or a direct connection."
            )

    def _take(self) -> tuple[Connection, bool]:
        """A connection, and whether it was idle before: it may have broken unseen."""
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        return self._open(), False

    def _give_back(self, connection: Connection) -> None:
        with suppress(psycopg.Error):
            _end_transaction(connection)
        with self._lock:
            room = len(self._idle) < _MAX_IDLE_CONNECTIONS and not self._closed.is_set()
            if room and not connection.broken:
                self._idle.append(connection)
                return
        connection.close()

    def _open(self) -> Connection:
        connection: Connection[Any] = psycopg.connect(self._conninfo, autocommit=True)
        try:
            connection.adapters.register_dumper(int, Int8Dumper)  # one plan for every size
            path = sql.SQL("{}, pg_temp").format(sql.Identifier(self._schema))
            run(
                connection,
                "session",
                search_path=path.as_string(),
                statement_timeout=_STATEMENT_TIMEOUT,
                idle_timeout=_IDLE_TIMEOUT,
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _ledger_error(self, error: psycopg.Error) -> LedgerError:
        return ledger_error(error, self._url, self._label, self._schema)


def _end_transaction(connection: Connection) -> None:
    """End what is open: a view that was read. It is committed, since after a rollback psycopg
    prepares all statements again."""
    status = connection.info.transaction_status
    if status == TransactionStatus.INTRANS:
        connection.commit()
    elif status != TransactionStatus.IDLE:
        connection.rollback()


def _process_of(connection: Connection) -> int:
    ((number,),) = run(connection, "process").fetchall()
    return int(number)
