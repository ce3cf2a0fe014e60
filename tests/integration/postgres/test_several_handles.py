"""Several handles of one ledger on a real PostgreSQL server, each with its own idea of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Choice, Offer
from benchfleet.ledger.postgres.rights import to_run
from benchfleet.testing import sample_cell
from postgres import Postgres

from .conftest import ME, SUCCESS


def meet(offer: Offer, *sides: tuple[Any, RunnerId]) -> None:
    """Both claim and end in turn until they share."""
    held = [ledger.claim(runner, offer) for ledger, runner in sides]
    for _ in range(100):
        for place, (ledger, runner) in enumerate(sides):
            over = [(claim.lease, SUCCESS) for claim in held[place]]
            refused, held[place] = ledger.exchange(over, runner, offer, 1)
            assert not any(refused)
        if all(ledger._claiming._share.runners == len(sides) for ledger, _ in sides):
            break
    else:
        pytest.fail("they did not meet")
    for (ledger, _), claims in zip(sides, held, strict=True):
        assert not any(ledger.finish_all([(claim.lease, SUCCESS) for claim in claims]))


def test_whoever_may_only_run_shares_too(
    opened: Callable[..., Any], postgres: Postgres, campaign: str
) -> None:
    cells = [sample_cell(n) for n in range(600)]
    opened().enroll(cells)
    role = f"runs_{campaign[:8]}"
    postgres.sql(f"create role {role} login; {to_run(campaign, role)}")
    url = postgres.url(user=role)
    offer = Offer(among=Choice(cell.fingerprint for cell in cells))
    meet(offer, (opened(url=url), ME), (opened(url=url), RunnerId("you")))


@pytest.mark.parametrize(
    "name", ["", "a,b", 'a"b', "a\\b", "{}", "a\nb", "a\x1eb", "null", "läufer"]
)
def test_a_runner_may_be_called_anything(opened: Callable[..., Any], name: str) -> None:
    cells = [sample_cell(n) for n in range(600)]
    mine, other = opened(), opened()
    mine.enroll(cells)
    offer = Offer(among=Choice(cell.fingerprint for cell in cells))
    runner = RunnerId(name)
    meet(offer, (mine, runner), (other, RunnerId("you")))
    claims = mine.claim(runner, offer, 5)
    leases = [claim.lease for claim in claims]
    assert [lease.token for lease in mine.renew(leases)] == [1] * 5
    over = [(lease, SUCCESS) for lease in leases]
    assert not any(mine.finish_all(over[:2]))
    refused, (claim,) = mine.exchange(over[2:], runner, offer, 1)
    assert not any(refused)
    mine.finish(claim.lease, SUCCESS)
    told = [event.data["runner"] for event in mine.events(kinds=["finished"])]
    assert {*told} == {name, "you"}


@pytest.mark.parametrize("together", [False, True])
def test_a_handle_ends_what_another_claimed_after_it_lost_the_cell_itself(
    opened: Callable[..., Any], together: bool
) -> None:
    cells = [sample_cell(n) for n in range(2)]
    mine, other = opened(), opened()
    mine.enroll(cells)
    offer = Offer(among=Choice(cell.fingerprint for cell in cells))
    given_back = mine.claim(ME, offer, 2)
    mine.release([claim.lease for claim in given_back], "it leaves")
    claims = other.claim(RunnerId("you"), offer, 2)
    leases = [claim.lease for claim in claims]
    assert len(mine.renew(leases)) == 2
    over = [(lease, SUCCESS) for lease in leases]
    if together:
        assert not any(mine.finish_all(over))
    else:
        for one in over:
            mine.finish(*one)


def test_what_was_given_back_may_meanwhile_ask_for_something_else(
    opened: Callable[..., Any],
) -> None:
    """It is enrolled anew while others look at what waits again."""

    def cells(vram: int) -> list[Cell]:
        return [sample_cell(n, vram=vram) for n in range(20)]

    enrolls, claims = opened(), opened()
    enrolls.enroll(cells(0))
    offer = Offer(vram=1000, among=Choice(cell.fingerprint for cell in cells(0)))
    over = threading.Event()

    def enroll() -> None:
        for vram in range(1, 100):
            enrolls.enroll(cells(vram))
        over.set()

    thread = threading.Thread(target=enroll)
    thread.start()
    try:
        while not over.is_set():
            claims.release([claim.lease for claim in claims.claim(ME, offer, 3)], "it leaves")
    finally:
        thread.join(60)
    assert len(claims.claim(ME, offer, 30)) == 20
