"""A PostgreSQL ledger of an older benchfleet, brought up to date when it is opened."""

from __future__ import annotations

import json
import uuid
from contextlib import closing

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import LedgerError
from benchfleet.ledger.addresses import schema_of
from benchfleet.ledger.checking import faults
from benchfleet.ledger.rows import CellTexts
from benchfleet.ledger.sql import migrations
from benchfleet.testing import sample_cell
from postgres import Postgres

ME = RunnerId("me")
SUCCESS = Outcome(state="success", digest="abc")
FAILED = Outcome(state="failed", retry_in=1e6)


def first_schema(postgres: Postgres, campaign: str) -> None:
    """A ledger of the first schema: a cell that is done, one that backs off, one that waits again,
    one that nobody began, and events of them and of others."""
    psycopg = pytest.importorskip("psycopg")
    texts, cells = CellTexts(), [sample_cell(n) for n in range(4)]
    facts = {"attempt": 1, "token": 1, "runner": "old"}
    told = [
        ("claimed", 0, facts),
        ("finished", 0, {**facts, "outcome": SUCCESS.to_dict()}),
        ("claimed", 1, facts),
        ("finished", 1, {**facts, "outcome": FAILED.to_dict()}),
        ("claimed", 2, facts),
        ("released", 2, {**facts, "reason": "given back"}),
    ]
    standing = [
        ("success", None, 1, 1, 1, 2),
        ("pending", 4e9, 1, 1, 1, 4),
        ("pending", None, 1, 2, 0, None),
        ("pending", None, 0, 0, 0, None),
    ]
    with psycopg.connect(postgres.url()) as connection:
        schema = schema_of(campaign)
        connection.execute(f"create schema {schema}")
        connection.execute(f"set search_path to {schema}")
        connection.execute(migrations("postgres")[0])
        meta = (("schema", "1"), ("campaign", campaign), ("enrolled", "1"))
        for key, value in meta:
            connection.execute("insert into meta values (%s, %s)", (key, value))
        key = cells[0].model.load_key
        connection.execute("insert into lane (load_key, gpus, vram) values (%s, 0, 0)", (key,))
        for number, (cell, stands) in enumerate(zip(cells, standing, strict=True), start=1):
            connection.execute(
                "insert into cell (ordinal, fingerprint, id, path, lane, priority, state, ready,"
                " attempt, token, ended_token, outcome)"
                " values (%s, %s, %s, %s, 1, 0, %s, %s, %s, %s, %s, %s)",
                (number, cell.fingerprint, cell.id, cell.path(marked=False), *stands),
            )
            spec = (number, texts.spec(cell), texts.terms(cell))
            connection.execute("insert into spec values (%s, %s, %s)", spec)
        add = "insert into event (at, kind, fingerprint, data) values (1.5, %s, %s, %s)"
        for kind, of, data in told:
            connection.execute(add, (kind, cells[of].fingerprint, json.dumps(data)))
        connection.execute(add, ("host_lost", "", "{}"))
        connection.execute(add, ("retry_asked", "stranger", "{}"))


def test_a_ledger_of_the_first_schema_keeps_all_that_it_knows(postgres: Postgres) -> None:
    from benchfleet.ledger.postgres import PostgresLedger

    campaign = uuid.uuid4().hex
    first_schema(postgres, campaign)
    cells = [sample_cell(n) for n in range(4)]
    with closing(PostgresLedger(postgres.url(), campaign=campaign)) as ledger:
        records = list(ledger.cells(whole=True))
        assert [record.cell for record in records] == cells
        assert [record.path for record in records] == [cell.path(marked=False) for cell in cells]
        assert [r.state for r in records] == ["success", "pending", "pending", "pending"]
        assert [r.outcome for r in records] == [SUCCESS, FAILED, None, None]
        assert records[1].ready_in > 1e6
        names = [event.fingerprint for event in ledger.events()]
        assert names == [*(c.fingerprint for c in cells[:3] for _ in range(2)), "", "stranger"]
        assert [e.seq for e in ledger.events(among={cells[1].fingerprint})] == [3, 4]
        assert list(faults(ledger)) == []
        among = Choice(cell.fingerprint for cell in cells)
        claims = ledger.claim(ME, Offer(among=among), 10)
        assert [(claim.cell, claim.lease.token) for claim in claims] == [
            (cells[2], 3),
            (cells[3], 1),
        ]
        ledger.finish(claims[0].lease, SUCCESS)
        assert ledger.enroll([*cells, sample_cell(5)]) == 1


def test_whoever_could_use_it_can_still_do_so(postgres: Postgres) -> None:
    from benchfleet.ledger.postgres import PostgresLedger

    campaign, some = uuid.uuid4().hex, uuid.uuid4().hex[:8]
    first_schema(postgres, campaign)
    schema = schema_of(campaign)
    for role, rights in (
        (f"runs-{some}", "select, insert, update"),
        (f"looks_{some}", "select"),
    ):
        postgres.sql(f'create role "{role}" login')
        postgres.sql(f'grant usage on schema {schema} to "{role}"')
        postgres.sql(f'grant {rights} on all tables in schema {schema} to "{role}"')
    with pytest.raises(LedgerError, match="does not let us"):
        PostgresLedger(postgres.url(user=f"runs-{some}"), campaign=campaign)
    with closing(PostgresLedger(postgres.url(), campaign=campaign)) as ledger:
        ledger.record(Event(kind="host_lost"))
    with closing(PostgresLedger(postgres.url(user=f"runs-{some}"), campaign=campaign)) as ledger:
        assert ledger.enroll([sample_cell(6)]) == 1
        (claim,) = ledger.claim(ME, Offer())
        ledger.finish(claim.lease, SUCCESS)
    with closing(PostgresLedger(postgres.url(user=f"looks_{some}"), campaign=campaign)) as ledger:
        assert len(list(ledger.cells())) == 5
