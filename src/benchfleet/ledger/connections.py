"""Connections to a PostgreSQL server: opened as needed, and asked again when they break."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar

import psycopg
from psycopg import Connection, conninfo, errors, sql
from psycopg.types.numeric import Int8Dumper

from benchfleet.errors import LedgerError, LedgerFull, LedgerUnreachable
from benchfleet.ledger.sql import read_statements

PATIENCE = 120.0  # seconds for a server that restarts or fails over
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between tries; the last one stays
_IDLE = 4  # connections that are kept for the next call
_DEFAULTS = {  # what a URL does not say; a server that is gone is noticed within half a minute
    "application_name": "benchfleet",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_STATEMENT = "60s"  # for one statement; none of them takes a second but those on a million cells
_IDLE_IN_TRANSACTION = "60s"  # a writer that was stopped in the middle of one is cut off
_AGAIN = (  # what passes by itself; classes 08 and 57P are told of by broken connections too
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.ReadOnlySqlTransaction,  # a server that was demoted a moment ago
    errors.IdleInTransactionSessionTimeout,
    errors.QueryCanceled,
)
T = TypeVar("T")


class Connections:
    """The connections of one ledger, all of them in the campaign's schema."""

    def __init__(self, url: str, shown: str, schema: str, *, patience: float = PATIENCE) -> None:
        self._url, self._shown, self._schema, self._patience = url, shown, schema, patience
        try:
            given = conninfo.conninfo_to_dict(url)
            defaults = {name: value for name, value in _DEFAULTS.items() if name not in given}
            self._conninfo = conninfo.make_conninfo(url, **defaults)
        except psycopg.ProgrammingError as error:
            raise LedgerError(f"{shown} is no address of a ledger: {self._what(error)}") from None
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def one(self) -> Iterator[Connection]:
        """A connection that nobody else uses meanwhile; a broken one is not kept."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._open()
        try:
            yield connection
        finally:
            with suppress(psycopg.Error):
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    connection.rollback()
            with self._lock:
                keep = not connection.broken and len(self._idle) < _IDLE
                if keep and not self._closed.is_set():
                    self._idle.append(connection)
                    connection = None
            if connection is not None:
                connection.close()

    def asked(self, ask: Callable[[Connection], T]) -> T:
        """What `ask` finds out over a connection; where that breaks, it asks again over another
        until patience ends. It must be whole in one transaction, and bear being asked twice.

        Raises LedgerUnreachable, or what it becomes in plain words.
        """
        with self.lent(ask) as answer:
            return answer

    @contextmanager
    def lent(self, ask: Callable[[Connection], T]) -> Iterator[T]:
        """The same, with the connection kept for whoever reads on."""
        until = time.monotonic() + self._patience
        pauses = iter(_PAUSES)
        with ExitStack() as lent:
            while True:
                try:
                    answer = ask(lent.enter_context(self.one()))
                    break
                except psycopg.Error as error:
                    lent.close()
                    pause = next(pauses, _PAUSES[-1])
                    if not _passes(error) or time.monotonic() + pause > until:
                        raise self.plain(error) from error
                    self._drop_idle()  # they broke with it, most likely
                    if self._closed.wait(pause):
                        raise self.plain(error) from error
            try:
                yield answer
            except psycopg.Error as error:
                raise self.plain(error) from error

    def _open(self) -> Connection:
        connection = psycopg.connect(self._conninfo, autocommit=True)
        try:
            connection.adapters.register_dumper(int, Int8Dumper)  # one plan for every size
            path = sql.SQL("{}, pg_temp").format(sql.Identifier(self._schema))
            connection.execute(
                read_statements("postgres")["session"],
                {
                    "search_path": path.as_string(),
                    "statement_timeout": _STATEMENT,
                    "idle_timeout": _IDLE_IN_TRANSACTION,
                },
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self) -> None:
        """Connect once, without patience. Raises LedgerUnreachable with the server's words."""
        try:
            with self.one():
                pass
        except psycopg.Error as error:
            raise self.plain(error) from error

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def plain(self, error: psycopg.Error) -> LedgerError:
        """What the server or libpq says, in words that help."""
        what = self._what(error)
        if isinstance(error, errors.InsufficientPrivilege):
            return LedgerError(
                f"the ledger {self._shown} does not let us: {what}; its owner grants what is "
                f"needed on schema {self._schema}, see `benchfleet ledger init`"
            )
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
            return LedgerError(
                f"the ledger {self._shown} is not whole: {what}; see `benchfleet ledger check`"
            )
        if isinstance(error, errors.DiskFull):
            return LedgerFull(
                f"the ledger {self._shown} cannot be written: {what}; make room on the disk of its "
                f"server, what was committed is safe"
            )
        return LedgerUnreachable(
            f"the ledger {self._shown} cannot be reached: {what}; see that its server is well and "
            f"that we may connect, and run again"
        )

    def _what(self, error: psycopg.Error) -> str:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = "; ".join(lines[:3]) or type(error).__name__
        return said.replace(self._url, self._shown)


def _passes(error: psycopg.Error) -> bool:
    """Whether it may go well when it is asked again."""
    if isinstance(error, _AGAIN):
        return True
    # Without a state it is not the server's answer, but the lack of one.
    return isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )
