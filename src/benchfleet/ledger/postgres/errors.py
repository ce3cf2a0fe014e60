"""What may go wrong with a PostgreSQL server: whether it passes, and in plain words."""

from __future__ import annotations

from math import inf

import psycopg
from psycopg import Connection, errors

from benchfleet.errors import (
    LedgerAway,
    LedgerError,
    LedgerFull,
    LedgerTooNew,
    LedgerUnreachable,
)
from benchfleet.ledger.addresses import redact_message

OPENING_TIMEOUT_S = 5.0  # for an address that does not answer when a ledger is opened
_TRANSIENT = (  # the SQL states 08 and 57P come with broken connections too
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.ReadOnlySqlTransaction,  # a server that was demoted a moment ago
    errors.IdleInTransactionSessionTimeout,
    errors.QueryCanceled,
)
# What libpq and a server say while connecting, where an error has no SQL state.
_RESTARTING = (
    *("is starting up", "is shutting down", "in recovery mode", "not yet accepting"),
    "terminating connection",
)
_NOT_THERE = ("Is the server running", "closed the connection", "Connection reset by peer")
_STANDBY = ("session is read-only", "server is in hot standby mode")  # target_session_attrs
_CROWDED = ("too many c", "connection slots are reserved")  # clients, or connections for a role
_MISSPELT = (
    *("resolve host", "translate host name", "invalid ", "unrecognized configuration parameter"),
    *("definition of service", "service file"),
)
_ADVICE = (  # the first whose words are in the error
    (
        _CROWDED,
        "raise max_connections: each runner needs three to six connections",
    ),
    (("password",), "put the right password for it into ~/.pgpass or PGPASSWORD"),
    (
        ("certificate", "private key"),
        "correct sslmode and sslrootcert in the address, or the server's certificate",
    ),
    (("does not exist",), "create it on the server, or correct its name in the address"),
    (_MISSPELT, "correct the address"),
    (
        ("no pg_hba.conf entry",),
        "add a line to the server's pg_hba.conf that lets this host connect",
    ),
)


def opening_timeout(error: psycopg.Error, timeout: float) -> float:
    """Seconds to wait where a first connection fails: none for what a person must fix."""
    message = str(error)
    if any(words in message for words in _RESTARTING):
        return timeout
    soon = any(words in message for words in (*_NOT_THERE, *_STANDBY, *_CROWDED))
    return min(OPENING_TIMEOUT_S, timeout) if soon else 0.0


def write_timeout(error: psycopg.Error, connection: Connection | None) -> float:
    """Seconds to wait where we may not write: a standby may be about to take over, but settings
    stay."""
    if not isinstance(error, errors.ReadOnlySqlTransaction) or connection is None:
        return inf
    return OPENING_TIMEOUT_S if connection.info.parameter_status("in_hot_standby") == "on" else 0.0


def is_transient(error: psycopg.Error) -> bool:
    """Whether the same call may succeed when it is repeated."""
    if isinstance(error, _TRANSIENT):
        return True
    # Without a state it is not the server's answer, but the lack of one.
    return isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )


def ledger_error(error: psycopg.Error, url: str, label: str, schema: str) -> LedgerError:
    """What the server or libpq says, in words that help."""
    what = error_text(error, url)
    if isinstance(error, errors.InsufficientPrivilege):
        return LedgerError(
            f"the ledger {label} denies access: {what}; its owner grants it on "
            f"schema {schema}, see `benchfleet ledger init`"
        )
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return LedgerError(
            f"the ledger {label} is not whole: {what}; see `benchfleet ledger check`"
        )
    if isinstance(error, errors.UndefinedColumn | errors.UndefinedFunction):
        return LedgerTooNew(
            f"the ledger {label} was recreated by another version of benchfleet: {what}; upgrade "
            "benchfleet and run again"
        )
    if isinstance(error, errors.DiskFull):
        return LedgerFull(
            f"the ledger {label} cannot be written: {what}; make room on the disk of its "
            f"server, what was committed is safe"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return LedgerAway(
            f"the ledger {label} cannot be written: {what}; its server is a standby, or lets us "
            "only look (default_transaction_read_only); name the one that takes writes, or several "
            "hosts with target_session_attrs=read-write"
        )
    if error.sqlstate is not None and not is_transient(error):
        return LedgerUnreachable(f"the ledger {label} refuses what it is asked: {what}")
    kind = LedgerAway if is_transient(error) else LedgerUnreachable
    fitting = (advice for words, advice in _ADVICE if any(word in what for word in words))
    advice = next(fitting, "check that the server runs and accepts our connection")
    return kind(f"the ledger {label} cannot be reached: {what}; {advice}")


def error_text(error: psycopg.Error, url: str) -> str:
    """The first lines of it, without the secrets of an address."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return redact_message("; ".join(lines[:3]) or type(error).__name__, url)
