"""What earlier rentals of a ledger say of machines and places. Pure."""

from __future__ import annotations

from benchfleet.domain.rental import RentalHistory

_DAY_S = 86_400.0
ONCE_S, TWICE_S = _DAY_S, 7 * _DAY_S  # for which a machine is left alone after its failures
_RECENT = 20  # rentals at one place
_NO_FAULT_OF_THE_MACHINE = frozenset({"no_driver", "no_capacity", "interrupted", "rate_limited"})

Machine = tuple[str, str]  # provider and the provider's id of the machine


def bad_machines(history: RentalHistory, now: float) -> dict[Machine, float]:
    """Machines that failed within a day, or twice within a week, and until when each is left alone.
    `now` and these: seconds since the epoch."""
    failures: dict[Machine, list[float]] = {}
    for one in history.rentals.values():
        failed = one.failure is not None and one.failure["kind"] not in _NO_FAULT_OF_THE_MACHINE
        if one.machine and failed:
            failures.setdefault((one.account.provider, one.machine), []).append(one.intended_at)
    until: dict[Machine, float] = {}
    for machine, times in failures.items():
        *earlier, last = sorted(times)
        until[machine] = max(last + ONCE_S, earlier[-1] + TWICE_S if earlier else 0.0)
    return {machine: end for machine, end in until.items() if end > now}


def confidence(history: RentalHistory, provider: str, region: str) -> float:
    """How likely a request at a place gets an instance: the share of the last 20 that did, with one
    success and one failure added. 0.5 where nothing is known."""
    rentals = [
        one
        for one in history.rentals.values()
        if (one.account.provider, one.region) == (provider, region) and one.state != "intended"
    ][-_RECENT:]
    return (1 + sum(bool(one.instance) for one in rentals)) / (2 + len(rentals))
