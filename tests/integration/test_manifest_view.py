"""The view `benchmark_manifest` of SQLite and PostgreSQL has the rows of `benchfleet manifest`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import benchfleet.ledger
from benchfleet.cli.shared.benchmark_report import read_manifest
from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.domain.rental import (
    CREATED,
    ENDED,
    INTENDED,
    READY,
    RETURNING,
    VOID,
    Account,
    Rental,
    rental_event,
)
from benchfleet.domain.usage import Usage
from benchfleet.ledger.addresses import schema_name
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.ledger.table_copy import copy_ledger
from benchfleet.reports.manifest import COLUMNS
from benchfleet.testing import FakeClock, sample_cell
from benchfleet.testing.claims import claim_any
from postgres import Postgres

ACCOUNT = Account(provider="vast", url="https://example.org", id="7")
OOM = Failure(stage="load", kind="oom", message='no "room"\nat all')
SHOWN = "tokens_per_second", "output_tokens_per_second", "total_requests", "errors"
PAID = (
    None,
    Usage(seconds=7.0, cost=0.5, currency="USD"),
    Usage(seconds=7, cost=2, currency="USD").with_tokens(1600, 0.00128, "USD"),
    Usage(seconds=9.0).with_tokens(1600, 0.00128, "USD"),
)
VIEWS = Path(benchfleet.ledger.__file__).parent


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    """Attempts and rentals of all kinds."""
    clock = FakeClock(1_750_000_000.25)
    ledger = SqliteLedger(tmp_path / "ledger.db", campaign="study", clock=clock)
    with closing(ledger):
        ledger.enroll([sample_cell(number, priority=number) for number in range(16)])
        rent(ledger, clock, "aaaaaaaa", costs=[100_001])
        rent(ledger, clock, "bbbbbbbb", costs=[7_000, 500], exact=False)
        rent(ledger, clock, "cccccccc", costs=[], kind="wrong_hardware")
        rent(ledger, clock, "dddddddd", costs=[3])
        rent(ledger, clock, "hhhhhhhh", costs=[])
        rent(ledger, clock, "gggggggg", costs=[9])
        refuse(ledger, "eeeeeeee")
        lost(ledger, "ffffffff")
        for number, host in enumerate(["r4090-aaaaaaaa", "r4090-bbbbbbbb", "here", ""] * 2):
            (claim,) = claim_any(ledger, RunnerId("me"))
            clock.advance(7.375 + number)
            outcome = Outcome(
                state="success" if number else "failed",
                digest=f"d{number}",
                failure=None if number else OOM,
                first=None if number else Failure(stage="benchmark", kind="stuck", message="s"),
                metrics=dict.fromkeys(SHOWN[number % 2 :], 3.5) | {"perplexity": float("nan")},
                reported=dict.fromkeys(SHOWN[number % 3 :], 4.5),
                host=host,
                device_type="RTX 4090" if host else "",
                usage=PAID[number % len(PAID)],
                taken_from="file:///cache" if number == 5 else "",
            )
            ledger.finish(claim.lease, outcome)
        uses = ("r4090-dddddddd", 0.1), ("here", None), ("", 0.2), ("r4090-hhhhhhhh", 0.3)
        for host, cost in (*uses, ("r4090-hhhhhhhh", None)):
            (claim,) = claim_any(ledger, RunnerId("me"))
            used = {"seconds": 1.0} | ({} if cost is None else {"cost": cost, "currency": "USD"})
            data = {"attempt": 1, "token": claim.lease.token, "host": host, "usage": used}
            event = Event(kind="used", fingerprint=claim.lease.fingerprint, data=data)
            ledger.record(event)
            ledger.release([claim.lease], "no room")
        claim_any(ledger, RunnerId("me"), limit=1)
        clock.advance(1000.0)
        ledger.reap()
        for why in ({"by": "race", "reason": "it is worse"}, {}):
            (claim,) = claim_any(ledger, RunnerId("me"), limit=1)
            clock.advance(2.0)
            cancel = Event(kind="cancel_asked", fingerprint=claim.lease.fingerprint, data=why)
            ledger.record(cancel)
            clock.advance(1.0)
            ledger.record(cancel)  # again: that cell ended before
        ledger.record(Event(kind="cancel_asked", fingerprint=sample_cell(15).fingerprint))
        claim_any(ledger, RunnerId("another"), limit=1)
        yield ledger


def rent(
    ledger: SqliteLedger,
    clock: FakeClock,
    id: str,
    *,
    costs: list[int],
    exact: bool = True,
    kind: str = "",
) -> None:
    """A rental with so many instances, one after another; still returning if there are no costs."""
    rental = Rental(
        id=id, account=ACCOUNT, owner="me", entry="r4090", offer="o1", gpu="RTX 4090",
        hourly=300_000,
    )  # fmt: skip
    steps = [rental.intent("b" * 10)]
    failure = {"failure": {"stage": "hardware", "kind": kind, "message": "x"}} if kind else {}
    for number in range(max(1, len(costs))):
        instance = f"{id}-{number}"
        if number:
            steps.append(rental_event(RETURNING, id, instance=instance, why="it appeared"))
        else:
            steps.append(rental_event(CREATED, id, instance=instance, hourly=310_000))
            steps.append(rental_event(READY, id, address="10.0.0.1", port=2222))
            steps.append(rental_event(RETURNING, id, why="over", **failure))
        if costs:
            ended = {"ended_at": 1.0, "cost": costs[number], "exact": exact or number == 0}
            steps.append(rental_event(ENDED, id, **ended))
    for step in steps:
        clock.advance(0.125)
        append(ledger, step)


def refuse(ledger: SqliteLedger, id: str) -> None:
    failure = {"stage": "provision", "kind": "no_capacity", "message": "gone"}
    append(ledger, Rental(id=id, account=ACCOUNT, entry="r3090").intent("b" * 10))
    append(ledger, rental_event(VOID, id, why="gone", failure=failure))


def lost(ledger: SqliteLedger, id: str) -> None:
    """A rental of which the ledger has no intent."""
    why = {"account": vars(ACCOUNT), "why": "the ledger has no record of it"}
    append(ledger, rental_event(RETURNING, id, instance="i9", **why))


def append(ledger: SqliteLedger, event: Event) -> None:
    earlier = ledger.events(fingerprints=["rentals"])
    ledger.record(event, after=earlier[-1].seq if earlier else 0)
    assert INTENDED in {one.kind for one in [*earlier, event]}


def expected(ledger: SqliteLedger) -> list[dict[str, Any]]:
    rows = read_manifest(ledger)
    assert len(rows) == 21
    assert len({row["cost_per_million_tokens"] for row in rows}) > 3
    assert {row["status"] for row in rows} >= {"released", "reaped", "running", "void", "ended"}
    cancelled = [row["notes"] for row in rows if row["status"] == "cancelled"]
    assert cancelled == ["it is worse", None]
    return rows


def earlier_view(backend: str) -> str:
    """The view as an earlier version made it."""
    text = (VIEWS / backend / "manifest.sql").read_text()
    return text.replace("final_cost", "billed_cost")


@pytest.mark.parametrize("has_earlier", [False, True])
def test_of_sqlite(ledger: SqliteLedger, has_earlier: bool) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("drop view benchmark_manifest")  # as it was made before there was one
        if has_earlier:
            connection.executescript(earlier_view("sqlite"))
    SqliteLedger(ledger.path, campaign="study").close()
    with closing(sqlite3.connect(ledger.path)) as connection:
        cursor = connection.execute("select * from benchmark_manifest")
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    assert names == list(COLUMNS)
    assert rows == expected(ledger)


@pytest.mark.parametrize("has_earlier", [False, True])
def test_of_postgresql(ledger: SqliteLedger, postgres: Postgres, has_earlier: bool) -> None:
    import psycopg
    from psycopg import sql

    from benchfleet.ledger.postgres.ledger import PostgresLedger

    url = postgres.url()
    campaign = f"manifest-view-{has_earlier}".lower()
    target = PostgresLedger(url, campaign=campaign)
    with closing(target):
        copy_ledger(ledger, target, ignore_running=True)
    view = sql.Identifier(schema_name(campaign), "benchmark_manifest")
    with psycopg.connect(url) as connection:  # as it was made before there was one
        connection.execute(sql.SQL("drop view {}").format(view))
        if has_earlier:
            schema = sql.Identifier(schema_name(campaign))
            connection.execute(sql.SQL("set search_path to {}").format(schema))
            connection.execute(earlier_view("postgres").encode())
    PostgresLedger(url, campaign=campaign).close()
    with psycopg.connect(url) as connection:
        cursor = connection.execute(sql.SQL("select * from {}").format(view))
        names = [column[0] for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    assert names == list(COLUMNS)
    assert rows == expected(ledger)
