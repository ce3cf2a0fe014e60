"""A PostgreSQL ledger of an older benchfleet, brought up to date when it is opened."""

from __future__ import annotations

import json
import uuid
from contextlib import closing

import pytest

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import ClaimLost, LedgerError, LedgerTooNew
from benchfleet.ledger.addresses import schema_of
from benchfleet.ledger.checking import faults
from benchfleet.ledger.rows import CellTexts
from benchfleet.ledger.sql import migrations
from benchfleet.testing import sample_cell
from postgres import Postgres

from .conftest import ME, SUCCESS

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
    from benchfleet.ledger.postgres.ledger import PostgresLedger

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
    from benchfleet.ledger.postgres.ledger import PostgresLedger

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
    with pytest.raises(LedgerError, match=r"to date: .*; its owner does, .*ledger migrate"):
        PostgresLedger(postgres.url(user=f"runs-{some}"), campaign=campaign)
    with closing(PostgresLedger(postgres.url(), campaign=campaign)) as ledger:
        ledger.record(Event(kind="host_lost"))
    with closing(PostgresLedger(postgres.url(user=f"runs-{some}"), campaign=campaign)) as ledger:
        assert ledger.enroll([sample_cell(6)]) == 1
        (claim,) = ledger.claim(ME, Offer())
        ledger.finish(claim.lease, SUCCESS)
    with closing(PostgresLedger(postgres.url(user=f"looks_{some}"), campaign=campaign)) as ledger:
        assert len(list(ledger.cells())) == 5


def second_schema(postgres: Postgres, campaign: str) -> None:
    """The same of the second schema, with a cell that runs."""
    psycopg = pytest.importorskip("psycopg")
    first_schema(postgres, campaign)
    with psycopg.connect(postgres.url()) as connection:
        connection.execute(f"set search_path to {schema_of(campaign)}")
        connection.execute(migrations("postgres")[1])
        connection.execute("update meta set value = '2' where key = 'schema'")
        connection.execute(
            "update cell set state = 'running', attempt = 1, token = 1, runner = 'old',"
            " expires = 4e9 where ordinal = 4"
        )
        data = json.dumps({"attempt": 1, "token": 1, "runner": "old"})
        add = "insert into event (at, kind, fingerprint, cell, data) values (2, %s, '', 4, %s)"
        connection.execute(add, ("claimed", data))


def test_what_the_second_schema_told_of_attempts_goes_on(postgres: Postgres) -> None:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    campaign = uuid.uuid4().hex
    second_schema(postgres, campaign)
    cells = [sample_cell(n) for n in range(4)]
    names = [cell.fingerprint for cell in cells]
    with closing(PostgresLedger(postgres.url(), campaign=campaign)) as ledger:
        before = ledger.events()
        assert [(e.kind, e.fingerprint) for e in before[-3:]] == [
            ("host_lost", ""),
            ("retry_asked", "stranger"),
            ("claimed", names[3]),
        ]
        assert [record.state for record in ledger.cells(states=["running"])] == ["running"]
        old = Lease(fingerprint=names[3], attempt=1, token=1, expires_in=60.0)
        ledger.finish(old, FAILED)
        ledger.finish(old, FAILED)  # asked again
        with pytest.raises(ClaimLost):
            ledger.finish(old, SUCCESS)
        ledger.record(Event(kind="retry_asked", fingerprint=names[0]))
        claims = {c.lease.fingerprint: c for c in ledger.claim(ME, Offer(), 10)}
        assert claims.keys() == {names[0], names[2]}
        assert next(ledger.cells(among={names[0]})).outcome == SUCCESS
        ledger.finish(claims[names[0]].lease, FAILED)
        ledger.release([claims[names[2]].lease], "given back")
        events = ledger.events()
        assert list(events[: len(before)]) == list(before)
        told = [(event.kind, event.fingerprint) for event in events[len(before) :]]
        assert told[:2] == [("finished", names[3]), ("retry_asked", names[0])]
        assert sorted(told[2:4]) == sorted([("claimed", names[0]), ("claimed", names[2])])
        assert told[4:] == [("finished", names[0]), ("released", names[2])]
        for name in names:
            of_it = [event for event in events if event.fingerprint == name]
            assert ledger.events(among={name}) == of_it
        assert list(faults(ledger)) == []


def test_the_third_schema_tells_the_same_history_to_whoever_could_read_it(
    postgres: Postgres,
) -> None:
    """Its history was put together by each statement that told of it."""
    psycopg = pytest.importorskip("psycopg")
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    campaign, role = uuid.uuid4().hex, f"looks-{uuid.uuid4().hex[:8]}"
    schema, cells = schema_of(campaign), [sample_cell(n) for n in range(3)]
    with closing(PostgresLedger(postgres.url(), campaign=campaign)) as ledger:
        ledger.enroll(cells)
        ended, given_back, _ = ledger.claim(ME, Offer(), 3)
        ledger.finish(ended.lease, SUCCESS)
        ledger.release([given_back.lease], "given back")
        before = ledger.events()
    with psycopg.connect(postgres.url()) as connection:
        connection.execute(f"set search_path to {schema}")
        connection.execute("drop view history")
        connection.execute("update meta set value = '3' where key = 'schema'")
    postgres.sql(f'create role "{role}" login')
    postgres.sql(f'grant usage on schema {schema} to "{role}"')
    postgres.sql(f'grant select on all tables in schema {schema} to "{role}"')
    with pytest.raises(LedgerError, match="ledger migrate"):
        PostgresLedger(postgres.url(user=role), campaign=campaign)
    with closing(PostgresLedger(postgres.url(), campaign=campaign)) as ledger:
        assert ledger.events() == before
    with closing(PostgresLedger(postgres.url(user=role), campaign=campaign)) as ledger:
        assert ledger.events() == before
        for cell in cells:
            of_it = [event for event in before if event.fingerprint == cell.fingerprint]
            assert ledger.events(among={cell.fingerprint}) == of_it


def test_it_stays_its_owner_s_whoever_brings_it_up_to_date(postgres: Postgres) -> None:
    """As the server's own administrator may, by looking at it."""
    psycopg = pytest.importorskip("psycopg")
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    campaign, owner = uuid.uuid4().hex, f"owns-{uuid.uuid4().hex[:8]}"
    postgres.sql(f'create role "{owner}" login')
    postgres.sql(f'grant create on database postgres to "{owner}"')
    with closing(PostgresLedger(postgres.url(user=owner), campaign=campaign)) as ledger:
        ledger.enroll([sample_cell(0)])
        before = ledger.events()
    with psycopg.connect(postgres.url()) as connection:
        connection.execute(f"set search_path to {schema_of(campaign)}")
        connection.execute("drop view history")
        connection.execute("update meta set value = '3' where key = 'schema'")
    PostgresLedger(postgres.url(), campaign=campaign).close()
    with closing(PostgresLedger(postgres.url(user=owner), campaign=campaign)) as ledger:
        assert ledger.events() == before


def test_whoever_wrote_before_it_was_brought_up_to_date_writes_no_more(
    postgres: Postgres,
) -> None:
    """Its statements are not known here, but the table that each of them told of events."""
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    campaign = uuid.uuid4().hex
    second_schema(postgres, campaign)
    old = "insert into event (at, kind, fingerprint, cell, data) values (1, 'claimed', '', 1, '{}')"
    with closing(PostgresLedger(postgres.url(), campaign=campaign)) as ledger:
        with pytest.raises(LedgerTooNew, match=r"by a newer benchfleet meanwhile.*upgrade"):
            ledger._connections.asked(lambda connection: connection.execute(old.encode()))
        assert list(faults(ledger)) == []
