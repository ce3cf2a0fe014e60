"""All rows of a ledger, read to be copied, and entered into an empty one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from psycopg import Connection, sql

from benchfleet.ledger.postgres.queries import run, stream
from benchfleet.ledger.table_copy import TABLES, Row, Tables, require_empty, select_all


def rows_of_each(connection: Connection) -> Iterator[tuple[str, Iterable[Row]]]:
    """The rows of one table after the other, in the connection's transaction."""
    for table in TABLES:
        yield table, stream(connection, select_all(table))
        connection.execute("close rows")


def enter(connection: Connection, label: str, tables: Tables) -> None:
    """Enter rows into a ledger that is empty, all of them or none. Raises LedgerError."""
    with connection.transaction(), connection.cursor() as cursor:
        connection.execute("set local statement_timeout = 0")
        run(connection, "lock_enrolment")
        require_empty(label, *run(connection, "counts").fetchall()[0])
        for table, rows in tables:
            columns = sql.SQL(", ").join(map(sql.Identifier, TABLES[table]))
            into = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier(table), columns)
            with cursor.copy(into) as copy:
                for row in rows:
                    copy.write_row(row)
        run(connection, "set_event_number")
