"""What earlier rentals of a ledger say of machines and places. Pure."""

from __future__ import annotations

from collections import Counter

from benchfleet.domain.rental import RentalHistory

_DAY_S = 86_400.0
ONCE_S, TWICE_S = _DAY_S, 7 * _DAY_S  # for which a machine is left alone after its failures
_RECENT = 20  # rentals at one place
_NO_FAULT_OF_THE_MACHINE = frozenset({"no_driver", "no_capacity", "interrupted", "rate_limited"})

Machine = tuple[str, str]  # provider and the provider's id of the machine


def bad_machines(history: RentalHistory, now: float) -> frozenset[Machine]:
    """Machines that failed within a day, or twice within a week. `now`: seconds since the epoch."""
    failed = [
        ((one.account.provider, one.machine), now - one.intended_at)
        for one in history.rentals.values()
        if one.machine
        and one.failure is not None
        and one.failure["kind"] not in _NO_FAULT_OF_THE_MACHINE
    ]
    week = Counter(machine for machine, age in failed if age < TWICE_S)
    day = {machine for machine, age in failed if age < ONCE_S}
    return frozenset(machine for machine, n in week.items() if n > 1 or machine in day)


def confidence(history: RentalHistory, provider: str, region: str) -> float:
    """How likely a request at a place gets an instance: the share of the last 20 that did, with one
    success and one failure added. 0.5 where nothing is known."""
    rentals = [
        one
        for one in history.rentals.values()
        if (one.account.provider, one.region) == (provider, region) and one.state != "intended"
    ][-_RECENT:]
    return (1 + sum(bool(one.instance) for one in rentals)) / (2 + len(rentals))
