"""What a ledger on a server is asked for and refuses when it is opened and used."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchfleet.errors import LedgerError, LedgerTooNew, LedgerUnreachable
from benchfleet.ledger.postgres import queries
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from postgres import Postgres

from .conftest import ME

EARLIER = Path(__file__).parents[2] / "data" / "postgres_schema_5.sql"


@pytest.mark.parametrize(("output", "done"), [("off", "on"), ("remote_apply", "remote_apply")])
def test_commits_survive_a_crash_whatever_the_settings_of_the_server(
    opened: Callable[..., Any], postgres: Postgres, output: str, done: str
) -> None:
    asked = f"?options=-csynchronous_commit%3D{output}"
    with opened(url=postgres.url() + asked)._connections.one() as connection:
        assert connection.execute("show synchronous_commit").fetchone() == (done,)


def test_the_servers_clock_counts_and_no_other(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened()
    ledger.enroll([sample_cell(0)])
    monkeypatch.setattr(time, "time", lambda: 0.0)
    (claim,) = claim_any(ledger, ME)
    assert ledger.reap() == []
    (record,) = ledger.cells()
    assert 0 < record.expires_in <= 60
    assert len(ledger.renew([claim.lease])) == 1
    assert ledger.events()[0].at > 1.7e9


def test_runs_that_begin_at_once_make_one_ledger(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    """All looked for it before the first of them made it, and wait in a transaction."""
    waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    with ThreadPoolExecutor(3) as pool, psycopg.connect(postgres.url()) as first:
        queries.run(first, "lock_creation")
        ledgers = [pool.submit(opened) for _ in range(3)]
        while first.execute(waiting).fetchall()[0][0] < 3:
            assert not any(ledger.done() for ledger in ledgers)
        first.commit()
        assert len({ledger.result().schema for ledger in ledgers}) == 1


def test_a_ledger_of_a_newer_schema_is_refused_and_not_touched(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    schema = opened().schema
    postgres.sql(f"update {schema}.meta set value = '99' where key = 'schema'")  # noqa: S608
    with pytest.raises(LedgerTooNew, match=r"its schema is 99, this one knows \d+; upgrade"):
        opened()


def test_a_ledger_whose_tables_are_gone_is_named(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    ledger = opened()
    postgres.sql(f"drop table {ledger.schema}.cell cascade")
    with pytest.raises(LedgerError, match=r"is not whole: .*benchfleet ledger check"):
        ledger.claim(ME, [sample_cell(0).fingerprint])


def test_a_ledger_of_an_earlier_benchfleet_is_refused_with_what_to_do(
    own_postgres: Postgres,
) -> None:
    """The file was written by pg_dump from a ledger of schema 5."""
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    own_postgres.sql(EARLIER.read_text())
    with pytest.raises(LedgerError) as refused:
        PostgresLedger(own_postgres.url(), campaign="study")
    assert str(refused.value).endswith(
        "was made by an earlier benchfleet (schema 5, this one needs 7); its results are kept: name"
        " another database, or drop schema benchfleet_study cascade, and run `benchfleet ledger"
        " rebuild CAMPAIGN`"
    )
    assert own_postgres.sql("select count(*) from benchfleet_study.cell") == "4"
    own_postgres.sql("drop schema benchfleet_study cascade")
    PostgresLedger(own_postgres.url(), campaign="study").close()


@pytest.mark.parametrize(
    ("where", "way_out"),
    [
        ({"database": "nobodys"}, 'database "nobodys" does not exist; create it on the server, or'),
        (
            {"user": "nobody"},
            'role "nobody" does not exist; create it on the server, or correct its name',
        ),
        ({"port": "1x"}, 'value "1x" for connection option "port"; correct the address'),
        ({"user": "secretive"}, "password for it into ~/.pgpass"),
        ({"database": "postgres?sslmode=odd"}, 'sslmode value: "odd"; correct the address'),
        ({"database": "postgres?service=odd"}, "correct the address"),
        (
            {"database": "postgres?options=-codd%3D1"},
            'unrecognized configuration parameter "odd"; correct the address',
        ),
    ],
)
def test_an_unreachable_store_is_reported_with_its_own_remedy(
    postgres: Postgres, where: dict[str, Any], way_out: str
) -> None:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    with pytest.raises(LedgerUnreachable, match=re.escape(way_out)):
        PostgresLedger(postgres.url(**where), campaign="study")
