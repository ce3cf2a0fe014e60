"""A server that took over lacks a claim: two runners hold the same token of one cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from benchfleet.domain.attempt import Claim, Lease, Outcome, RunnerId
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import ClaimLost
from benchfleet.testing import sample_cell
from postgres import Postgres

from .conftest import ME, SUCCESS

YOU = RunnerId("you")
CELLS = [sample_cell(n) for n in range(6)]
OFFER = Offer(among=Choice(cell.fingerprint for cell in CELLS))
Ended = Sequence[tuple[Lease, Outcome]]


def one_by_one(ledger: Any, ended: Ended) -> list[ClaimLost | None]:
    refused: list[ClaimLost | None] = []
    for lease, outcome in ended:
        try:
            ledger.finish(lease, outcome)
        except ClaimLost as error:
            refused.append(error)
        else:
            refused.append(None)
    return refused


def together(ledger: Any, ended: Ended) -> Any:
    return ledger.finish_all(ended)


def exchanged_one_by_one(ledger: Any, ended: Ended) -> list[Any]:
    return [ledger.exchange([one], ME, OFFER, 1)[0][0] for one in ended]


def exchanged(ledger: Any, ended: Ended) -> Any:
    return ledger.exchange(ended, ME, OFFER, 2)[0]


def lost_claims(ledger: Any, postgres: Postgres) -> Sequence[Claim]:
    """Two, of which the server knows nothing afterwards."""
    kept = f"create table {ledger.schema}.kept as table {ledger.schema}.cell"
    postgres.sql(kept)
    lost: Sequence[Claim] = ledger.claim(ME, OFFER, 2)
    postgres.sql(
        f"delete from {ledger.schema}.cell;"  # noqa: S608
        f" insert into {ledger.schema}.cell select * from {ledger.schema}.kept"
    )
    return lost


@pytest.mark.parametrize("end", [one_by_one, together, exchanged_one_by_one, exchanged])
def test_a_claim_that_the_server_lost_ends_nobody_elses_attempt(
    opened: Callable[..., Any], postgres: Postgres, end: Callable[[Any, Ended], Any]
) -> None:
    mine, other = opened(), opened()
    mine.enroll(CELLS)
    lost = lost_claims(mine, postgres)
    held = other.claim(YOU, OFFER, 2)
    assert [claim.lease for claim in held] == [claim.lease for claim in lost]
    assert mine.renew([claim.lease for claim in lost]) == []
    refused = end(mine, [(claim.lease, SUCCESS) for claim in lost])
    assert [str(error) for error in refused] == [
        f"attempt 1 of cell {claim.lease.fingerprint[:8]} holds no longer: the server lost that it"
        " was claimed, and you claimed it since"
        for claim in lost
    ]
    assert not any(other.finish_all([(claim.lease, SUCCESS) for claim in held]))


def test_a_handle_that_did_not_claim_ends_what_it_has_the_lease_of(
    opened: Callable[..., Any],
) -> None:
    mine, other = opened(), opened()
    mine.enroll(CELLS)
    claims = mine.claim(ME, OFFER, 4)
    ended = [(claim.lease, SUCCESS) for claim in claims]
    other.finish(*ended[0])
    assert not any(other.finish_all(ended[1:]))


def test_a_claim_that_the_server_lost_gives_back_nobody_elses_cell(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    mine, other = opened(), opened()
    mine.enroll(CELLS)
    lost = lost_claims(mine, postgres)
    held = other.claim(YOU, OFFER, 2)
    mine.release([claim.lease for claim in lost], "it leaves")
    assert len(other.renew([claim.lease for claim in held])) == 2
    assert not mine.events(kinds=["released"])
