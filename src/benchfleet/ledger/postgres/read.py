"""How cells and events are read, each in one consistent view."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.event import Event
from benchfleet.domain.part import is_part_id
from benchfleet.domain.state import State
from benchfleet.errors import LedgerAway
from benchfleet.ledger.base import Clock
from benchfleet.ledger.postgres.connections import Connections
from benchfleet.ledger.postgres.queries import STATEMENTS, run, stream
from benchfleet.ledger.serialization import parse_event, parse_record
from benchfleet.ledger.table_copy import Row

_BEGIN_VIEW = (
    "begin isolation level repeatable read read only; set local statement_timeout = 0;"
    " set local idle_in_transaction_session_timeout = 0"
)


def read_events(
    connections: Connections,
    since: int,
    fingerprints: Collection[str] | None,
    kinds: Collection[str] | None,
) -> Sequence[Event]:
    """The events after `since`, as `Ledger.events` tells them."""
    values: dict[str, Any] = {"since": since, "kinds": None if kinds is None else list(kinds)}
    values |= {} if fingerprints is None else {"fingerprints": list(fingerprints)}
    name = "events" if fingerprints is None else "events_of"

    def fetch(connection: Connection) -> list[Any]:
        last = _last_event(connection)
        return run(connection, name, last=last, **values).fetchall()

    return [*map(parse_event, connections.with_retry(fetch))]


def last_event(connections: Connections) -> int:
    """The number of the newest event; 0 without one."""
    return connections.with_retry(_last_event)


def _last_event(connection: Connection) -> int:
    with connection.transaction():  # every smaller number is committed by then
        run(connection, "await_events")
        ((last,),) = run(connection, "last_event").fetchall()
    return int(last)


def read_cells(
    connections: Connections,
    clock: Clock | None,
    states: Collection[State],
    fingerprints: Collection[str] | None,
    with_cell: bool,
    parts: bool,
) -> Iterator[CellRecord]:
    """The records of cells in the order of enrolment; after a line that broke it goes on with the
    next cell."""
    values: dict[str, Any] = {"states": list(states), "with_cell": with_cell}
    values |= {} if fingerprints is None else {"fingerprints": list(fingerprints)}
    name = "cells" if fingerprints is None else "cells_of"
    after = -1

    def opened(connection: Connection) -> tuple[float, Iterator[Row]]:
        ((now,),) = [(clock(),)] if clock else run(connection, "server_time").fetchall()
        connection.execute(_BEGIN_VIEW)
        return now, stream(connection, STATEMENTS[name], after=after, **values)

    while True:
        began = after
        try:
            with connections.borrow(opened) as (now, rows):
                for row in rows:
                    after = row[0]
                    if fingerprints is not None or parts or not is_part_id(row[2]):
                        yield parse_record(row[1:], now)
            return
        except LedgerAway:
            if after == began:  # the server is away, not just the line broken
                raise


@contextmanager
def one_view(connections: Connections) -> Iterator[Connection]:
    """A connection in a transaction that sees all as it is now, however long it is read."""

    def opened(connection: Connection) -> Connection:
        connection.execute(_BEGIN_VIEW)
        return connection

    with connections.borrow(opened) as connection:
        yield connection
