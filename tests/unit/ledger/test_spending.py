"""What a campaign has spent of its budget."""

from __future__ import annotations

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.rental import CREATED, SUBJECT, Account, Rental, rental_event
from benchfleet.domain.usage import Usage
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.spending import read_spending
from benchfleet.testing.sample_cells import sample_cell

ACCOUNT = Account(provider="simulated", url="http://127.0.0.1", id="me")


def test_attempts_on_rented_machines_are_paid_by_their_rentals() -> None:
    ledger = MemoryLedger()
    rental = Rental(id="abcdefgh", account=ACCOUNT, entry="cloud", hourly=3_600_000)
    seq = ledger.record(rental.intent("ledger"), after=0)
    created = rental_event(CREATED, rental.id, instance="i-1", began=100.0, hourly=3_600_000)
    ledger.record(created, after=seq)
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
