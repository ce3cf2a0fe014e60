"""Claiming without a runner, for tests and measurements."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.attempt import Claim, RunnerId
from benchfleet.ledger.base import Ledger


def claim_any(ledger: Ledger, runner: RunnerId, limit: int = 1) -> Sequence[Claim]:
    """Claim the first cells that are free, in the order of enrolment."""
    pending = [record.fingerprint for record in ledger.cells(states=["pending"])]
    return ledger.claim(runner, pending, limit)
