"""Connections to a PostgreSQL server: opened as needed, and asked again when they break."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from typing import Any, TypeVar

import psycopg
from psycopg import Connection, conninfo, errors, sql
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int8Dumper

from benchfleet.errors import LedgerError
from benchfleet.ledger.addresses import misspelt_password
from benchfleet.ledger.hurry import Hurry
from benchfleet.ledger.postgres.statements import Value, statement
from benchfleet.ledger.postgres.troubles import OPENING, opening_patience, passes, plain, said
from benchfleet.ledger.sql import read_statements

PATIENCE = 120.0  # seconds for a server that restarts or fails over
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between tries; the last one stays
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
_KEPT = 4  # idle connections: one claims and one tells what ended, for however many slots
_LOOKS = 5  # at which of the server's processes a pooler shows, while others ask it too
_WELL = (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK)
T = TypeVar("T")
Answer = list[tuple[Value, ...]]


class _Line(Connection[Any]):
    """A connection that knows what was prepared on it."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._known_here: set[str] = set()
        self.kept = False  # it was idle meanwhile, and may have broken unseen

    def answer(self, name: str, values: Sequence[Value]) -> Answer:
        """The rows of a prepared statement, in one call of libpq: to adapt values, to wait and to
        read rows in Python would take longer than the statement does."""
        try:
            return self._answer(name, values)
        except errors.InvalidSqlStatementName:  # forgotten, as by psycopg after a rollback
            self._known_here.clear()
            return self._answer(name, values)

    def _answer(self, name: str, values: Sequence[Value]) -> Answer:
        wire = self.pgconn
        if name not in self._known_here:
            self._refuse(wire.prepare(name.encode(), statement(name)))
            self._known_here.add(name)
        result = wire.exec_prepared(name.encode(), values)  # type: ignore[arg-type] # None: null
        self._refuse(result)
        value, columns = result.get_value, range(result.nfields)
        return [tuple([value(row, n) for n in columns]) for row in range(result.ntuples)]

    def leave(self) -> None:
        """End what is open: a view that was read, since each write ends itself. It is not rolled
        back: after that psycopg has the server forget all that was prepared, by us too."""
        status = self.info.transaction_status
        if status == psycopg.pq.TransactionStatus.INTRANS:
            self.commit()
        elif status != psycopg.pq.TransactionStatus.IDLE:
            self.rollback()

    def _refuse(self, result: PGresult) -> None:
        if result.status in _WELL:
            return
        if self.pgconn.status != psycopg.pq.ConnStatus.OK:
            raise psycopg.OperationalError(result.get_error_message())
        raise errors.error_from_result(result)


class Connections:
    """The connections of one ledger, all of them in the campaign's schema."""

    def __init__(self, url: str, shown: str, schema: str, *, patience: float = PATIENCE) -> None:
        self._url, self._shown, self._schema, self._patience = url, shown, schema, patience
        if misspelt_password(url):
            raise LedgerError(
                f"the password in the address of {shown} has characters that part an address: "
                "write @ / % and blanks as %40 %2F %25 %20, or keep it in ~/.pgpass or PGPASSWORD"
            )
        try:
            given = conninfo.conninfo_to_dict(url)
            defaults = {name: value for name, value in _DEFAULTS.items() if name not in given}
            self._conninfo = conninfo.make_conninfo(url, **defaults, client_encoding="utf8")
        except psycopg.ProgrammingError as error:
            raise LedgerError(f"{shown} is no address of a ledger: {said(error, url)}") from None
        self._lock = threading.Lock()
        self._idle: list[_Line] = []
        self._closed = threading.Event()
        self.hurry = Hurry()
        self.era: tuple[Any, ...] = ()  # of the server that answered last; another may know less

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def one(self) -> Iterator[_Line]:
        """A connection that nobody else uses meanwhile; a broken one is not kept."""
        connection = self._taken()
        try:
            yield connection
        finally:
            with suppress(psycopg.Error):
                connection.leave()
            self._keep(connection)

    def _taken(self) -> _Line:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        return connection or self._open()

    def _keep(self, connection: _Line) -> None:
        with self._lock:
            if not connection.broken and len(self._idle) < _KEPT and not self._closed.is_set():
                connection.kept = True
                self._idle.append(connection)
                return
        connection.close()

    def answer(self, name: str, values: Sequence[Value]) -> Answer:
        """The rows of a statement that is short and whole in itself; asked again as `asked` does.

        Raises LedgerUnreachable, or what it becomes in plain words.
        """
        try:
            connection = self._taken()
            try:
                return connection.answer(name, values)
            finally:
                self._keep(connection)
        except psycopg.Error:
            self._drop_idle()
        return self.asked(lambda connection: connection.answer(name, values))

    def asked(self, ask: Callable[[_Line], T]) -> T:
        """What `ask` finds out over a connection; where that breaks, it asks again over another
        until patience ends. It must be whole in one transaction, and bear being asked twice.

        Raises LedgerUnreachable, or what it becomes in plain words.
        """
        with self.lent(ask) as answer:
            return answer

    @contextmanager
    def lent(self, ask: Callable[[_Line], T]) -> Iterator[T]:
        """The same, with the connection kept for whoever reads on. Raises as `asked` does."""
        began, patience = time.monotonic(), self.hurry.patience(self._patience)
        pauses = iter(_PAUSES)
        with ExitStack() as lent:
            while True:
                connection, kept, asked = None, False, time.monotonic()
                try:
                    connection = lent.enter_context(self.one())
                    kept = connection.kept
                    answer = ask(connection)
                    break
                except psycopg.Error as error:
                    lent.close()
                    # What had broken before says nothing of the server: that is asked at once.
                    pause = 0.0 if kept else next(pauses, _PAUSES[-1])
                    # Whoever slept while it was asked has not waited: it is asked once more.
                    until = began + min(patience, _write_patience(error, connection))
                    late = not kept and asked + pause > until
                    if late or not passes(error):
                        raise self.plain(error) from error
                    self._drop_idle()  # they broke with it, most likely
                    if self._closed.wait(pause):
                        raise self.plain(error) from error
            try:
                yield answer
            except psycopg.Error as error:
                raise self.plain(error) from error

    def _open(self) -> _Line:
        connection = _Line.connect(self._conninfo, autocommit=True)
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
            self.note_era(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def note_era(self, connection: Connection) -> None:
        """Learn which server it is, and which ledger."""
        meta = sql.Identifier(self._schema, "meta").as_string()
        (self.era,) = connection.execute(statement("era"), {"meta": meta}).fetchall()

    def check(self) -> None:
        """Connect, with patience for a server that restarts, and little for one that is not there.
        Raises LedgerUnreachable with the server's words, and LedgerError for a pooler that does not
        give whole sessions."""
        began, pauses = time.monotonic(), iter(_PAUSES)
        while True:
            asked = time.monotonic()  # what passes while we are stopped is no waiting
            try:
                with self.one() as line:
                    self._refuse_shared(line)
                    return
            except psycopg.Error as error:
                pause = next(pauses, _PAUSES[-1])
                wait = opening_patience(error, self._patience)
                if asked + pause - began > wait or self._closed.wait(pause):
                    raise self.plain(error) from error

    def _refuse_shared(self, line: _Line) -> None:
        """Settings, what is prepared and who listens are a session's: where a pooler gives it to
        others after each transaction, cells would be entered into another's schema. One that gives
        whole sessions shows each of us one process of the server, and to nobody else the same."""
        if _process_of(line) == line.info.backend_pid:
            return  # no pooler: it tells us a number of its own
        with self.one() as other:
            pairs = [(_process_of(line), _process_of(other)) for _ in range(_LOOKS)]
        mine, others = ({pair[n] for pair in pairs} for n in (0, 1))
        if len(mine) > 1 or mine & others:
            raise LedgerError(
                f"between {self._shown} and us stands a pooler that gives out transactions; have "
                "it give whole sessions (PgBouncer: pool_mode = session), or name the server itself"
            )

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def plain(self, error: psycopg.Error) -> LedgerError:
        """What the server or libpq says, in words that help."""
        return plain(error, self._url, self._shown, self._schema)


def _process_of(line: _Line) -> int:
    """The process of the server that answers."""
    ((number,),) = line.execute(statement("process")).fetchall()
    return int(number)


def _write_patience(error: psycopg.Error, connection: _Line | None) -> float:
    """Seconds to wait where we may not write: a standby may be about to take over, settings stay.
    Whoever runs cells goes on all the same."""
    if not isinstance(error, errors.ReadOnlySqlTransaction) or connection is None:
        return inf
    return OPENING if connection.info.parameter_status("in_hot_standby") == "on" else 0.0
