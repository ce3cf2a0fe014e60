"""What the cells of a campaign used up, and what it has spent of its budget, by the ledger."""

from __future__ import annotations

from collections.abc import Iterable

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.budget import Spending
from benchfleet.domain.part import SPLIT
from benchfleet.domain.rental import KINDS, SUBJECT, RentalCost, RentalHistory
from benchfleet.domain.usage import UsageTotal

from .base import Ledger
from .history import BILLED, bills, host_of


def read_bills(ledger: Ledger, records: Iterable[CellRecord]) -> dict[str, UsageTotal]:
    """What the attempts of these cells used up, by fingerprint. The outcome of an only attempt says
    it. Events are read of the other cells alone, which are few in most campaigns."""
    totals: dict[str, UsageTotal] = {}
    parts = {event.fingerprint: event.data["parts"] for event in ledger.events(kinds={SPLIT})}
    others: set[str] = set()
    for record in records:
        name = record.fingerprint
        if record.attempt == 1 and record.outcome is not None and name not in parts:
            totals[name] = UsageTotal()
            if not record.outcome.taken_from:
                totals[name].add(record.outcome.usage)
        elif record.attempt:
            others.update((name, *parts.get(name, ())))
    if others:
        totals |= bills(ledger.events(fingerprints=others, kinds=BILLED))
    return totals


def read_rentals(ledger: Ledger) -> RentalHistory:
    """All rentals of a ledger."""
    return RentalHistory(ledger.events(fingerprints=[SUBJECT], kinds=KINDS))


def read_spending(ledger: Ledger, currency: str, now: float) -> Spending:
    """What was spent of one currency: rentals by what they cost until `now` (seconds since the
    epoch), and attempts on other machines."""
    rentals = read_rentals(ledger)
    events = ledger.events(kinds=BILLED)
    total = UsageTotal()
    for one in bills(event for event in events if not rentals.of_host(host_of(event))).values():
        total.take(one)
    attempts = (total.costs or {}).get(currency, 0.0)
    return Spending(attempts=attempts, rentals=rentals.spent(currency, now))


def read_rental_costs(ledger: Ledger, now: float) -> tuple[RentalCost, ...]:
    """What rented machines cost until `now` (seconds since the epoch), by currency."""
    rentals = read_rentals(ledger)
    currencies = dict.fromkeys(one.currency for one in rentals.rentals.values())
    if not currencies:
        return ()
    events = ledger.events(kinds=BILLED)
    total = UsageTotal()
    for one in bills(event for event in events if rentals.of_host(host_of(event))).values():
        total.take(one)
    attempts = total.costs or {}
    costs = (
        RentalCost(currency=one, cost=rentals.spent(one, now), attempts=attempts.get(one, 0.0))
        for one in currencies
    )
    return tuple(one for one in costs if one.cost)
