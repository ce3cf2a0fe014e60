"""Roles of a PostgreSQL ledger: the rights that the documentation names suffice, and are needed."""

from __future__ import annotations

import uuid
from contextlib import closing

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.errors import LedgerAbsent, LedgerError
from benchfleet.ledger.fsck import problems
from benchfleet.ledger.postgres.grants import reader_grants, runner_grants
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from postgres import Postgres

ME, OTHER = RunnerId("me"), RunnerId("other")
SUCCESS = Outcome(state="success", digest="abc", metrics={"overall_score": 1 / 3})


def test_those_rights_suffice_where_several_claim_at_once(postgres: Postgres) -> None:
    pytest.importorskip("psycopg")
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    campaign, runs = f"r{uuid.uuid4().hex[:8]}", f"runs_{uuid.uuid4().hex[:8]}"
    with closing(PostgresLedger(postgres.url(), campaign=campaign)) as owner:
        owner.enroll([sample_cell(n) for n in range(40)])
    postgres.sql(f"create role {runs} login")
    postgres.sql(runner_grants(campaign, runs))
    with (
        closing(PostgresLedger(postgres.url(user=runs), campaign=campaign)) as one,
        closing(PostgresLedger(postgres.url(user=runs), campaign=campaign)) as other,
    ):
        among = [record.fingerprint for record in one.cells()]
        claimed = [
            claim.lease.fingerprint
            for _ in range(20)
            for ledger, runner in ((one, ME), (other, OTHER))
            for claim in ledger.claim(runner, among)
        ]
    assert sorted(claimed) == sorted(among)


def test_a_role_needs_no_more_rights_than_are_printed(postgres: Postgres) -> None:
    psycopg = pytest.importorskip("psycopg")
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    campaign, some = f"r{uuid.uuid4().hex[:8]}", uuid.uuid4().hex[:8]
    runs, looks = f"runs_{some}", f"looks_{some}"
    with closing(PostgresLedger(postgres.url(), campaign=campaign)):
        pass
    for role, rights in ((runs, runner_grants), (looks, reader_grants)):
        postgres.sql(f"create role {role} login")
        with pytest.raises(LedgerError, match="denies access"):
            PostgresLedger(postgres.url(user=role), campaign=campaign)
        postgres.sql(rights(campaign, role))
        with pytest.raises(
            LedgerError, match=r"does not let us make one: .*`benchfleet ledger init`"
        ):
            PostgresLedger(postgres.url(user=role), campaign=f"{campaign}_other")
        with pytest.raises(LedgerAbsent):
            PostgresLedger(postgres.url(user=role), campaign=f"{campaign}_other", create=False)
    with (
        closing(PostgresLedger(postgres.url(user=runs), campaign=campaign)) as ledger,
        closing(PostgresLedger(postgres.url(user=looks), campaign=campaign)) as looking,
    ):
        ledger.enroll([sample_cell(n, model=f"m{n}") for n in range(5)])
        ledger.enroll([sample_cell(0, model="m0", priority=1)])
        first, second, third = claim_any(ledger, ME, 3)
        (fourth,) = claim_any(ledger, ME)
        assert len(ledger.renew([first.lease, second.lease])) == 2
        ledger.finish(first.lease, SUCCESS)
        ledger.release([second.lease], "given back")
        ledger.record(Event(kind="cancel_asked", fingerprint=third.lease.fingerprint))
        ledger.record(Event(kind="retry_asked", fingerprint=first.lease.fingerprint))
        assert ledger.reap() == []
        assert [r.token for r in looking.cells(with_cell=True)] == [r.token for r in ledger.cells()]
        assert looking.events() == ledger.events()
        assert list(problems(looking)) == []
        for refused in (
            lambda: looking.claim(ME, [fourth.lease.fingerprint]),
            lambda: looking.finish(fourth.lease, SUCCESS),
            lambda: looking.record(Event(kind="host_lost")),
        ):
            with pytest.raises(LedgerError, match="denies access"):
                refused()
        schema = ledger.schema
    with psycopg.connect(postgres.url(user=runs), autocommit=True) as connection:
        for harm in ("delete from {}.event", "update {}.event set at = 0", "drop table {}.cell"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(harm.format(schema).encode())
