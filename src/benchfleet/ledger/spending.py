"""What a campaign has spent of its budget, by the ledger."""

from __future__ import annotations

from benchfleet.domain.budget import Spending
from benchfleet.domain.rental import KINDS, SUBJECT, RentalHistory
from benchfleet.domain.usage import UsageTotal

from .base import Ledger
from .history import BILLED, bills, host_of


def read_spending(ledger: Ledger, currency: str, now: float) -> Spending:
    """What was spent of one currency: rentals by what they cost until `now` (seconds since the
    epoch), and attempts on other machines."""
    rentals = RentalHistory(ledger.events(fingerprints=[SUBJECT], kinds=KINDS))
    events = ledger.events(kinds=BILLED)
    total = UsageTotal()
    for one in bills(event for event in events if not rentals.of_host(host_of(event))).values():
        total.take(one)
    attempts = (total.costs or {}).get(currency, 0.0)
    return Spending(attempts=attempts, rentals=rentals.spent(currency, now))
