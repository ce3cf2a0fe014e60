"""The mirror: an SQLite file with what an installation has seen of a ledger in git.

It has the tables of the SQLite ledger, and beside them how far each log was read and what the ref
of each cell points to. All of it can be read from the remote again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchfleet.errors import LedgerDamaged, LedgerFull, LedgerUnreachable
from benchfleet.ledger.named_queries import Execute, load_queries
from benchfleet.ledger.sqlite.file import QUERIES, SCHEMA, create_schema
from benchfleet.ledger.table_copy import TABLES, Row, select_all

_QUERIES = Path(__file__).with_name("queries.sql")
UNSURE = "?"  # in place of an object: something happened to the cell that was not read yet
_SCHEMA = """
create table if not exists log (
  ref text primary key,   -- a ref of the remote
  tip text not null,      -- its commit, up to which everything was taken in
  moved real not null     -- when that was first seen, by our clock
) without rowid;
create table if not exists claim (
  fingerprint text primary key,
  turn integer not null,  -- how many things changed the cell so far
  base text not null,     -- the commit of the last one
  object text not null    -- what the cell's ref points to: that commit, a heartbeat, or nothing
) without rowid;
create index if not exists claim_pointed on claim (fingerprint) where object <> '';
"""


# one statement for each of many rows
ExecuteMany = Callable[[str, Iterable[Mapping[str, Any]]], None]


@dataclass(frozen=True)
class Writer:
    """Runs the statements of one transaction."""

    execute: Execute
    execute_many: ExecuteMany


class Mirror:
    """The tables in one file, for all processes of an installation."""

    def __init__(self, file: Path, campaign: str) -> None:
        self.file = file
        self._statements = {**load_queries(QUERIES), **load_queries(_QUERIES)}
        try:
            self._connection = self._prepared(campaign)
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise self._plain(error) from error
            for suffix in ("", "-wal", "-shm"):  # it can all be read again
                file.with_name(file.name + suffix).unlink(missing_ok=True)
            self._connection = self._prepared(campaign)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def _prepared(self, campaign: str) -> sqlite3.Connection:
        connection = self._connect()
        try:
            connection.execute("pragma journal_mode = wal")
            create_schema(connection, campaign)
            query = "select value from meta where key = 'schema'"
            if int(connection.execute(query).fetchone()[0]) != SCHEMA:
                raise sqlite3.DatabaseError(f"{self.file} was made by another version")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.file, timeout=60, isolation_level=None, check_same_thread=False
        )
        # A power cut takes back what came last, as a whole: it is read again.
        connection.execute("pragma synchronous = normal")
        return connection

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """One transaction, kept where the block ends well. Raises LedgerUnreachable."""
        connection = self._connection
        try:
            connection.execute("begin immediate")
            try:
                yield Writer(self._execute(connection), self._execute_many(connection))
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        except sqlite3.DatabaseError as error:
            raise self._plain(error) from error

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """One consistent view. Raises LedgerUnreachable."""
        try:
            with closing(self._connect()) as connection:
                yield self._execute(connection)
        except sqlite3.DatabaseError as error:
            raise self._plain(error) from error

    @contextmanager
    def tables(self, ahead: float) -> Iterator[Iterator[tuple[str, Iterable[Row]]]]:
        """All rows, as an SQL ledger has them; its clock is so many seconds ahead of ours."""
        times = [TABLES["cell"].index(name) for name in ("ready", "expires")]

        def shifted(table: str, row: Row) -> Row:
            if table != "cell":
                return row
            return [
                value + ahead if index in times and value is not None else value
                for index, value in enumerate(row)
            ]

        with closing(self._connect()) as connection:
            connection.execute("begin")
            yield (
                (table, map(partial(shifted, table), connection.execute(select_all(table))))
                for table in TABLES
            )

    def _execute(self, connection: sqlite3.Connection) -> Execute:
        return lambda name, /, **values: connection.execute(self._statements[name], values)

    def _execute_many(self, connection: sqlite3.Connection) -> ExecuteMany:
        def execute_many(name: str, rows: Iterable[Mapping[str, Any]]) -> None:
            connection.executemany(self._statements[name], rows)

        return execute_many

    def _plain(self, error: sqlite3.DatabaseError) -> LedgerUnreachable:
        text = str(error)
        if "full" in text:
            return LedgerFull(f"{self.file} cannot be written: {text}; make room on its disk")
        if "malformed" in text or "not a database" in text:
            return LedgerDamaged(
                f"{self.file}: {text}; remove its folder; benchfleet reads it again from the remote"
            )
        return LedgerUnreachable(f"{self.file} cannot be used: {text}; check the disk")

    # What was seen

    def tips(self, execute: Execute) -> dict[str, tuple[str, float]]:
        """By ref of the remote, the commit up to which it was taken in, and since when."""
        return {ref: (tip, moved) for ref, tip, moved in execute("log_tips")}

    def claims(self, execute: Execute) -> dict[str, tuple[int, str, str]]:
        """By fingerprint, of the cells that have a ref: the turn, the commit of that, and what the
        ref points to."""
        return {row[0]: row[1:] for row in execute("claim_refs")}
