"""The statements of queries.sql by their names, and how a connection runs one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from psycopg import Connection, Cursor

from benchfleet.ledger.named_queries import load_queries

_FETCH_ROWS = 2000
STATEMENTS = load_queries(Path(__file__).with_name("queries.sql"))


def run(connection: Connection, name: str, **values: object) -> Cursor:
    """Run one statement; psycopg prepares those that a connection runs often."""
    return connection.execute(STATEMENTS[name].encode(), values)


def stream(connection: Connection, statement: str, **values: object) -> Iterator[tuple[Any, ...]]:
    """The rows of a statement in the connection's transaction, fetched some at a time, the first of
    them before this returns."""
    connection.execute(b"declare rows no scroll cursor for " + statement.encode(), values)
    fetch = b"fetch %d from rows" % _FETCH_ROWS
    first = connection.execute(fetch).fetchall()
    return chain(first, chain.from_iterable(iter(lambda: connection.execute(fetch).fetchall(), [])))
