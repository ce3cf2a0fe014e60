"""What a campaign has spent of its budget."""

from __future__ import annotations

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.rental import CREATED, SUBJECT, Account, Rental, RentalCost, rental_event
from benchfleet.domain.usage import Usage
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.spending import read_rental_costs, read_spending
from benchfleet.testing.sample_cells import sample_cell

ACCOUNT = Account(provider="simulated", url="http://127.0.0.1", id="me")


def test_attempts_on_rented_machines_are_paid_by_their_rentals() -> None:
    ledger = MemoryLedger()
    rental = rented(ledger)
    assert [event.fingerprint for event in ledger.events()] == [SUBJECT] * 2
    cells = [sample_cell(number) for number in range(3)]
    ledger.enroll(cells)
    used = [("lab1", 2.0, "USD"), (rental.host, 5.0, "USD"), ("lab1", 9.0, "EUR")]
    for cell, (host, cost, currency) in zip(cells, used, strict=True):
        (claim,) = ledger.claim(RunnerId("runner"), [cell.fingerprint])
        usage = Usage(seconds=1, cost=cost, currency=currency)
        ledger.finish(claim.lease, Outcome(state="success", host=host, usage=usage))
    spending = read_spending(ledger, "USD", now=110.0)
    assert (spending.attempts, spending.rentals) == (2.0, 0.01)


def test_rentals_cost_until_now_with_the_part_of_their_attempts() -> None:
    """3.60 USD an hour for 100 s are 0.10 USD, of which an attempt of 20 s is 0.02 USD."""
    ledger = MemoryLedger()
    assert read_rental_costs(ledger, now=0.0) == ()
    rental = rented(ledger)
    cells = [sample_cell(number) for number in range(2)]
    ledger.enroll(cells)
    for cell, host in zip(cells, (rental.host, "lab1"), strict=True):
        (claim,) = ledger.claim(RunnerId("runner"), [cell.fingerprint])
        usage = Usage(seconds=20, cost=0.02, currency="USD")
        ledger.finish(claim.lease, Outcome(state="success", host=host, usage=usage))
    (cost,) = read_rental_costs(ledger, now=200.0)
    assert cost == RentalCost(currency="USD", cost=0.1, attempts=0.02)


def rented(ledger: MemoryLedger) -> Rental:
    """A rental that is billed from 100.0 on."""
    rental = Rental(id="abcdefgh", account=ACCOUNT, entry="cloud", hourly=3_600_000)
    seq = ledger.record(rental.intent("ledger"), after=0)
    created = rental_event(CREATED, rental.id, instance="i-1", began=100.0, hourly=3_600_000)
    ledger.record(created, after=seq)
    return rental
