"""Making and checking the tables of a PostgreSQL ledger."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from psycopg import Connection, errors, sql

from benchfleet.errors import LedgerAbsent, LedgerDamaged, LedgerError, LedgerTooNew
from benchfleet.ledger.postgres.queries import run

SCHEMA = 7  # the number of schema.sql; earlier ones were never released
_SCRIPT, _VIEW = (Path(__file__).with_name(name) for name in ("schema.sql", "manifest.sql"))

_NEWEST_TEXT = "final_cost"  # in the view


def prepare(
    connection: Connection, *, schema: str, campaign: str, label: str, create: bool
) -> None:
    """Make the ledger where there is none, or check it. Raises LedgerAbsent, LedgerDamaged,
    LedgerTooNew or LedgerError."""
    meta = _meta(connection, schema)
    if not meta:
        if not create:
            raise LedgerAbsent(f"{label} has no ledger of campaign {campaign!r}")
        _refuse_encoding(connection, label)
        try:
            _make(connection, schema, campaign)
        except errors.InsufficientPrivilege as error:
            raise LedgerError(
                f"{label} has no ledger of campaign {campaign!r}, and does not let us make one: "
                f"{error.diag.message_primary}; a role that may create schemas makes it with "
                "`benchfleet ledger init`, which prints what to grant to others"
            ) from error
        meta = _meta(connection, schema)
    _refuse_other(meta, schema, campaign, label)
    _add_view(connection, schema)


def _add_view(connection: Connection, schema: str) -> None:
    """Make the view of the manifest if we may, where an earlier version made none or another."""
    view = sql.Identifier(schema, "benchmark_manifest").as_string()
    newest = run(connection, "has_view", view=view, text=_NEWEST_TEXT)
    if not newest.fetchall()[0][0]:
        may_fail = errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction
        with suppress(*may_fail), connection.transaction():
            run(connection, "lock_creation")
            connection.execute(_VIEW.read_bytes())


def _refuse_other(meta: dict[str, str], schema: str, campaign: str, label: str) -> None:
    """Refuse a ledger that is damaged, of another version, or of another campaign."""
    if "campaign" not in meta or not meta.get("schema", "").isdecimal():
        raise LedgerDamaged(
            f"schema {schema} of {label} is damaged: its table meta lacks what it is; restore it "
            "from a backup, or drop the schema and run `benchfleet ledger rebuild CAMPAIGN`"
        )
    number = int(meta["schema"])
    if number > SCHEMA:
        raise LedgerTooNew(
            f"{label} was written by a newer benchfleet: its schema is {number}, this one knows "
            f"{SCHEMA}; upgrade benchfleet (nothing was touched)"
        )
    if number < SCHEMA:
        raise LedgerError(
            f"{label} was made by an earlier benchfleet (schema {number}, this one needs {SCHEMA});"
            f" its results are kept: name another database, or drop schema {schema} cascade, and "
            "run `benchfleet ledger rebuild CAMPAIGN`"
        )
    if meta["campaign"] != campaign:  # two names that are one schema's
        raise LedgerError(
            f"schema {schema} of {label} is the ledger of campaign {meta['campaign']!r}, not of "
            f"{campaign!r}; name another database"
        )


def _refuse_encoding(connection: Connection, label: str) -> None:
    """Names are of any language; a database that knows no encoding keeps them as they are."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in ("UTF8", "SQL_ASCII"):
        raise LedgerError(
            f"the database of {label} is in {encoding}, which has no letters for some names; name "
            "another, made with: create database NAME encoding 'UTF8' template template0"
        )


def _make(connection: Connection, schema: str, campaign: str) -> None:
    with connection.transaction():
        run(connection, "lock_creation")
        # First: reading a table drops what this session remembers of the catalogue, such as that
        # there was no schema before it waited for the lock.
        has_schema = run(connection, "has_schema", schema=schema).fetchall()[0][0]
        if _meta(connection, schema):  # another was first
            return
        if not has_schema:
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
        connection.execute(_SCRIPT.read_bytes())
        connection.execute(_VIEW.read_bytes())
        for key, value in (("schema", str(SCHEMA)), ("campaign", campaign)):
            run(connection, "add_meta", key=key, value=value)


def _meta(connection: Connection, schema: str) -> dict[str, str]:
    table = sql.Identifier(schema, "meta").as_string()
    ((exists,),) = run(connection, "has_ledger", meta=table).fetchall()
    return dict(run(connection, "meta").fetchall()) if exists else {}
