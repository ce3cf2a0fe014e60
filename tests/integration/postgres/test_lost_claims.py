"""A server that took over lacks a claim: two runners hold the same token of one cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchfleet.domain.attempt import Claim, RunnerId
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from postgres import Postgres

from .conftest import ME, SUCCESS

YOU = RunnerId("you")
CELLS = [sample_cell(n) for n in range(6)]


def lost_claims(ledger: Any, postgres: Postgres) -> Sequence[Claim]:
    """Two, of which the server knows nothing afterwards."""
    postgres.sql(f"create table {ledger.schema}.kept as table {ledger.schema}.cell")
    lost = claim_any(ledger, ME, 2)
    postgres.sql(
        f"delete from {ledger.schema}.cell;"  # noqa: S608
        f" insert into {ledger.schema}.cell select * from {ledger.schema}.kept"
    )
    return lost


def test_a_claim_that_the_server_lost_ends_nobody_elses_attempt(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    mine, other = opened(), opened()
    mine.enroll(CELLS)
    lost = lost_claims(mine, postgres)
    held = claim_any(other, YOU, 2)
    assert [claim.lease for claim in held] == [claim.lease for claim in lost]
    assert mine.renew([claim.lease for claim in lost]) == []
    refused = mine.finish_all([(claim.lease, SUCCESS) for claim in lost])
    assert [str(error) for error in refused] == [
        f"attempt 1 of cell {claim.lease.fingerprint[:8]} holds no longer: the server lost that it"
        " was claimed, and you claimed it since"
        for claim in lost
    ]
    assert not any(other.finish_all([(claim.lease, SUCCESS) for claim in held]))


def test_a_claim_that_the_server_lost_gives_back_nobody_elses_cell(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    mine, other = opened(), opened()
    mine.enroll(CELLS)
    lost = lost_claims(mine, postgres)
    held = claim_any(other, YOU, 2)
    mine.release([claim.lease for claim in lost], "it leaves")
    assert len(other.renew([claim.lease for claim in held])) == 2
    assert not mine.events(kinds=["released"])
