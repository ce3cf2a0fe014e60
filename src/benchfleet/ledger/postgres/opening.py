"""Making, migrating and checking the schema of a PostgreSQL ledger."""

from __future__ import annotations

from psycopg import Connection, sql

from benchfleet.errors import LedgerAbsent, LedgerError, LedgerTooNew
from benchfleet.ledger.postgres.statements import do
from benchfleet.ledger.sql import migrations


def prepare(connection: Connection, *, schema: str, campaign: str, shown: str, make: bool) -> None:
    """Make, migrate or check the ledger. Raises LedgerAbsent, LedgerTooNew or LedgerError."""
    known = migrations("postgres")
    meta = _meta(connection, schema)
    if not meta and not make:
        raise LedgerAbsent(f"{shown} has no ledger of campaign {campaign!r}")
    if int(meta.get("schema", "0")) < len(known):
        with connection.transaction():
            do(connection, "making")
            meta = _meta(connection, schema)  # another may have been first
            _migrate(connection, schema, int(meta.get("schema", "0")))
            if "campaign" not in meta:
                do(connection, "note_meta", key="campaign", value=campaign)
                do(connection, "note_meta", key="enrolled", value="0")
            meta = _meta(connection, schema)
    if int(meta["schema"]) > len(known):
        raise LedgerTooNew(
            f"{shown} was written by a newer benchfleet: its schema is {meta['schema']}, "
            f"this one knows {len(known)}; upgrade benchfleet (nothing was touched)"
        )
    if meta["campaign"] != campaign:  # two names that are one schema's
        raise LedgerError(
            f"schema {schema} of {shown} is the ledger of campaign "
            f"{meta['campaign']!r}, not of {campaign!r}; name another database"
        )


def _meta(connection: Connection, schema: str) -> dict[str, str]:
    table = sql.Identifier(schema, "meta").as_string()
    row = do(connection, "there", meta=table).fetchone()
    return dict(do(connection, "meta").fetchall()) if row and row[0] else {}


def _migrate(connection: Connection, schema: str, have: int) -> None:
    for number, script in enumerate(migrations("postgres"), start=1):
        if number <= have:
            continue
        if number == 1 and not do(connection, "schema_there", schema=schema).fetchall()[0][0]:
            made = sql.SQL("create schema {}").format(sql.Identifier(schema))
            connection.execute(made)
        connection.execute(script.encode())
        do(connection, "note_meta", key="schema", value=str(number))
