"""All rows of a ledger, entered into an empty one on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import Connection, Cursor, sql

from benchfleet.ledger.copying import TABLES, Row, Tables, refuse_filled
from benchfleet.ledger.postgres.statements import do, statement


def enter(connection: Connection, shown: str, tables: Tables) -> None:
    """Enter rows into a ledger that is empty, all of them or none. Raises LedgerError."""
    with connection.transaction(), connection.cursor() as cursor:
        connection.execute("set local statement_timeout = 0")
        do(connection, "enrolling")
        refuse_filled(shown, *do(connection, "counts").fetchall()[0])
        connection.execute(statement("arriving"))
        for table, rows in tables:
            apart = table in ("cell", "event")  # what stands in other columns here
            _copy(cursor, table, f"arriving_{table}" if apart else table, rows)
            if apart:
                connection.execute(statement(f"{table}s_arrived"))
        do(connection, "enrolled")
        do(connection, "go_on")


def _copy(cursor: Cursor, table: str, into: str, rows: Iterable[Row]) -> None:
    columns = sql.SQL(", ").join(map(sql.Identifier, TABLES[table]))
    entering = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier(into), columns)
    with cursor.copy(entering) as copy:
        for row in rows:
            copy.write_row(row)
