"""Making, migrating and checking the schema of a PostgreSQL ledger."""

from __future__ import annotations

from psycopg import Connection, errors, sql

from benchfleet.errors import LedgerAbsent, LedgerDamaged, LedgerError, LedgerTooNew
from benchfleet.ledger.postgres.statements import do
from benchfleet.ledger.sql import migrations


def prepare(connection: Connection, *, schema: str, campaign: str, shown: str, make: bool) -> None:
    """Make, migrate or check the ledger. Raises LedgerAbsent,
    LedgerDamaged, LedgerTooNew or LedgerError."""
    known = migrations("postgres")
    meta = _meta(connection, schema)
    if not meta and not make:
        raise LedgerAbsent(f"{shown} has no ledger of campaign {campaign!r}")
    if not meta:
        _refuse_encoding(connection, shown)
    if meta and not ({"campaign", "enrolled"} <= meta.keys() and meta.get("schema", "").isdigit()):
        raise LedgerDamaged(
            f"schema {schema} of {shown} is damaged: its table meta lacks what it is; bring it back"
            " from a backup, or drop the schema and `benchfleet ledger rebuild`"
        )
    if int(meta.get("schema", "0")) < len(known):
        try:
            _bring_up_to_date(connection, schema, campaign)
        except errors.InsufficientPrivilege as error:
            raise _not_ours_to_make(error, campaign, shown, older=bool(meta)) from error
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


def _refuse_encoding(connection: Connection, shown: str) -> None:
    """Names are of any language; a database that knows no encoding keeps them as they are."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in ("UTF8", "SQL_ASCII"):
        raise LedgerError(
            f"the database of {shown} is in {encoding}, which has no letters for some names; name "
            "another, made with: create database NAME encoding 'UTF8' template template0"
        )


def _bring_up_to_date(connection: Connection, schema: str, campaign: str) -> None:
    with connection.transaction():
        do(connection, "making")
        meta = _meta(connection, schema)  # another may have been first
        if meta:  # what is made stays its owner's, also where the server's administrator came first
            ((owner,),) = do(connection, "owner", meta=_meta_of(schema)).fetchall()
            connection.execute(sql.SQL("set local role {}").format(sql.Identifier(owner)))
        _migrate(connection, schema, int(meta.get("schema", "0")))
        if "campaign" not in meta:
            do(connection, "note_meta", key="campaign", value=campaign)
            do(connection, "note_meta", key="enrolled", value="0")


def _not_ours_to_make(
    error: errors.InsufficientPrivilege, campaign: str, shown: str, *, older: bool
) -> LedgerError:
    """What to do where another role is to make or migrate the ledger."""
    what = error.diag.message_primary
    if older:
        return LedgerError(
            f"the ledger {shown} is of an older benchfleet, and does not let us bring it up to "
            f"date: {what}; its owner does, with `benchfleet ledger migrate`"
        )
    return LedgerError(
        f"{shown} has no ledger of campaign {campaign!r}, and does not let us make one: {what}; "
        "a role that may create schemas makes it with `benchfleet ledger init`, which prints what "
        "to grant to others"
    )


def _meta(connection: Connection, schema: str) -> dict[str, str]:
    row = do(connection, "there", meta=_meta_of(schema)).fetchone()
    return dict(do(connection, "meta").fetchall()) if row and row[0] else {}


def _meta_of(schema: str) -> str:
    return sql.Identifier(schema, "meta").as_string()


def _migrate(connection: Connection, schema: str, have: int) -> None:
    for number, script in enumerate(migrations("postgres"), start=1):
        if number <= have:
            continue
        if number == 1 and not do(connection, "schema_there", schema=schema).fetchall()[0][0]:
            made = sql.SQL("create schema {}").format(sql.Identifier(schema))
            connection.execute(made)
        connection.execute(script.encode())
        do(connection, "note_meta", key="schema", value=str(number))
