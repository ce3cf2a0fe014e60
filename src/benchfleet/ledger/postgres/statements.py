"""Statements of a ledger on PostgreSQL by their name, and values as the server takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import psycopg
from psycopg import Connection

from benchfleet.ledger.sql import read_statements

_FETCHED = 2000  # rows that a reader fetches at once
Value = bytes | None  # as it crosses the line


def statement(name: str) -> bytes:
    """The statement of that name, whose text is our own."""
    return read_statements("postgres")[name].encode()


def do(connection: Connection, name: str, **values: object) -> psycopg.Cursor:
    """Run one statement by its name."""
    return connection.execute(statement(name), values)


def read(connection: Connection, name: str, **values: object) -> Iterator[tuple[Any, ...]]:
    """The rows of one statement in the transaction that the connection is in, some at a time.
    The statement has begun when this returns; its cursor ends with the transaction."""
    declare = b"declare %s no scroll cursor for %s" % (name.encode(), statement(name))
    connection.execute(declare, values)
    fetch = b"fetch %d from %s" % (_FETCHED, name.encode())
    return chain.from_iterable(iter(lambda: connection.execute(fetch).fetchall(), []))


def array(values: Iterable[str | float | None]) -> bytes:
    """Values as the text of an array of them."""
    return ("{" + ",".join(map(_element, values)) + "}").encode()


def joined(values: Iterable[str]) -> bytes:
    """Texts that have no control characters, as one."""
    return "\x1e".join(values).encode()


def numbers(values: Iterable[int]) -> bytes:
    """Whole numbers as the text of an array of them."""
    return b"{%s}" % b",".join([b"%d" % value for value in values])


def numbered(value: Value) -> list[int]:
    """Whole numbers that came joined by commas; none where nothing did."""
    return [int(number) for number in value.split(b",")] if value else []


def _element(value: str | float | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "NULL" if value is None else repr(value)
