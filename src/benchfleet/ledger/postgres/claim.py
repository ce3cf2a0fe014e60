"""Claims from rows, and which runner claimed which lease."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchfleet.domain.attempt import Claim, Lease, RunnerId
from benchfleet.ledger.serialization import parse_claim


def claim_of(row: Sequence[Any], lease_s: float) -> Claim:
    """The claim in a row of the statement `claim`."""
    fingerprint, path, attempt, tries, token, spec, terms, finished = row
    lease = Lease(fingerprint=fingerprint, attempt=attempt, token=token, expires_in=lease_s)
    return parse_claim(lease, path=path, tries=tries, spec=spec, terms=terms, finished=finished)


class Claimants:
    """Who claimed each lease, as far as this handle knows.

    A standby that takes over may lack the last claims, and gives their tokens again: then only the
    runner tells two leases apart.
    """

    def __init__(self) -> None:
        self._runners: dict[tuple[str, int], RunnerId] = {}  # by fingerprint and token

    def add(self, runner: RunnerId, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._runners[claim.lease.fingerprint, claim.lease.token] = runner

    def lease_row(self, position: int, lease: Lease) -> dict[str, Any]:
        """The values of a lease for a statement."""
        runner = self._runners.get((lease.fingerprint, lease.token))
        return {
            "position": position,
            "fingerprint": lease.fingerprint,
            "token": lease.token,
            "runner": runner,
        }

    def forget(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._runners.pop((lease.fingerprint, lease.token), None)
