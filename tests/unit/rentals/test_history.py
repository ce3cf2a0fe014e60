"""What the events of rentals add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.domain.event import Event
from benchfleet.domain.rental import (
    CREATED,
    ENDED,
    READY,
    RETURNING,
    SUBJECT,
    VOID,
    Account,
    Billing,
    Rental,
    RentalHistory,
    parse_label,
    rental_event,
)

ACCOUNT = Account(provider="vast", url="https://example.org", id="7")
RENTAL = Rental(id="aaaaaaaa", account=ACCOUNT, owner="me", hourly=3_600, reserve=50_000)


def history(*events: Event) -> RentalHistory:
    intent = RENTAL.intent("b" * 10)
    numbered = [replace(one, seq=n, at=5.0) for n, one in enumerate((intent, *events), 1)]
    return RentalHistory(numbered)


def state(*events: Event) -> str:
    return history(*events).rentals[RENTAL.id].state


def event(kind: str, **data: object) -> Event:
    return rental_event(kind, RENTAL.id, **data)


def test_a_rental_goes_from_its_intent_to_its_end() -> None:
    created = event(CREATED, instance="i1", began=100.0)
    assert state() == "intended"
    assert state(created) == "created"
    ready = event(READY, address="10.0.0.1", port=2222, user="root", facts={"driver": "570"})
    result = history(created, ready).rentals[RENTAL.id]
    assert (result.state, result.address, result.port) == ("ready", "10.0.0.1", 2222)
    assert result.accrued(now=160.0) == 60
    assert history(created).last == 2
    assert history().ledger_id == "b" * 10
    returning = event(RETURNING, why="no work is left")
    ended = history(created, ready, returning, event(ENDED, cost=61, exact=True))
    assert (ended.rentals[RENTAL.id].state, ended.rentals[RENTAL.id].cost) == ("ended", 61)
    assert not ended.open
    assert ended.committed(1e9) == {"USD": 61}


def test_an_event_that_does_not_fit_the_state_changes_nothing() -> None:
    assert state(event(READY, address="x")) == "intended"
    assert state(event(ENDED, cost=1, exact=True)) == "intended"
    assert state(event(VOID, why="none"), event(CREATED, instance="i1")) == "void"
    assert history(RENTAL.intent("c" * 10)).ledger_id == "b" * 10


def test_a_begin_that_is_not_known_is_that_of_the_intent() -> None:
    created = history(event(CREATED, instance="i1")).rentals[RENTAL.id]
    assert created.began is None
    assert created.accrued(now=65.0) == 60  # the intent was at 5
    ready = history(event(CREATED, instance="i1"), event(READY, address="x", began=45.0))
    assert ready.rentals[RENTAL.id].accrued(now=65.0) == 20


def test_the_first_reason_stays() -> None:
    created, late = event(CREATED, instance="i1"), event(RETURNING, why="second", instance="i1")
    ended = event(ENDED, cost=5, exact=True)
    result = history(created, event(RETURNING, why="first"), ended, late).rentals[RENTAL.id]
    assert (result.state, result.why) == ("returning", "first")


def test_an_instance_that_ends_twice_is_billed_once() -> None:
    end = event(RETURNING, why="done", instance="i1"), event(ENDED, cost=5, exact=True)
    again = event(RETURNING, why="late", instance="i2"), event(ENDED, cost=7, exact=False)
    created = event(CREATED, instance="i1")
    assert history(created, *end, *end).rentals[RENTAL.id].cost == 5
    both = history(created, *end, *again).rentals[RENTAL.id]
    assert (both.cost, both.exact) == (12, False)


def test_an_instance_without_a_record_is_returned() -> None:
    lost = rental_event(RETURNING, "cccccccc", instance="i9", account=vars(ACCOUNT), why="lost")
    rental = history(lost).rentals["cccccccc"]
    assert (rental.state, rental.instance, rental.account) == ("returning", "i9", ACCOUNT)


def test_a_reader_in_another_thread_keeps_what_it_reads() -> None:
    result = history()
    before = result.rentals
    result.take(replace(event(CREATED, instance="i1"), seq=2))
    assert [rental.state for rental in before.values()] == ["intended"]
    assert [rental.state for rental in result.rentals.values()] == ["created"]


def test_what_is_open_is_reserved() -> None:
    created = event(CREATED, instance="i1", began=0.0)
    assert history().committed(0.0) == {"USD": 50_000}
    assert history(created).committed(60.0) == {"USD": 50_000}
    assert history(created).committed(3600.0 * 50) == {"USD": 181_200}  # and 20 minutes more


@pytest.mark.parametrize(
    ("billing", "seconds", "cost"),
    [
        (Billing(), 10.0, 10),
        (Billing(), 10.1, 11),  # rounded up to a second
        (Billing(unit_s=60), 61.0, 120),
        (Billing(minimum_s=600), 5.0, 600),
        (Billing(), -5.0, 0),
    ],
)
def test_seconds_are_billed_in_units(billing: Billing, seconds: float, cost: int) -> None:
    assert billing.cost(3_600, seconds) == cost


def test_a_label_names_the_ledger_and_the_rental() -> None:
    label = RENTAL.label("b" * 10)
    assert parse_label(label) == ("b" * 10, "aaaaaaaa")
    assert parse_label("bf-x-y") is None
    assert parse_label("my pod") is None
    assert SUBJECT == "rentals"
