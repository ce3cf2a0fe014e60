"""Which campaigns have their ledgers in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection, sql

from benchfleet.ledger.addresses import display_url
from benchfleet.ledger.postgres.connections import Connections
from benchfleet.ledger.postgres.queries import run


def campaigns_in(url: str) -> Sequence[str]:
    """Their names, as far as we may look. Raises LedgerUnreachable with the server's words."""
    connections = Connections(url, display_url(url), "public")
    try:
        connections.check()
        return connections.with_retry(_campaigns)
    finally:
        connections.close()


def _campaigns(connection: Connection) -> list[str]:
    campaigns = []
    for (schema,) in run(connection, "ledgers").fetchall():
        named = sql.SQL("select value from {} where key = 'campaign'")
        row = connection.execute(named.format(sql.Identifier(schema, "meta"))).fetchone()
        campaigns += [str(row[0])] if row else []
    return campaigns
