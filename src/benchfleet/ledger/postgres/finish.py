"""How attempts end: several in one statement, each while its token is the cell's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.errors import ClaimLost
from benchfleet.ledger.postgres.claim import Claimants

LeaseOutcome = tuple[Lease, Outcome]


def first_of_each(ended: Iterable[LeaseOutcome]) -> list[tuple[int, LeaseOutcome]]:
    """The first outcome of each lease, with its position: of two the first counts."""
    first: dict[tuple[str, int], tuple[int, LeaseOutcome]] = {}
    for position, one in enumerate(ended):
        first.setdefault((one[0].fingerprint, one[0].token), (position, one))
    return list(first.values())


def finish_row(
    position: int, lease: Lease, outcome: Outcome, claimants: Claimants
) -> dict[str, Any]:
    """The values of one attempt for the statement `finish`."""
    return {
        **claimants.lease_row(position, lease),
        "attempt": lease.attempt,
        "new_state": outcome.state if outcome.retry_in is None else "pending",
        "retry_in": outcome.retry_in or None,
        "charged": int(outcome.charged),
        "outcome": json.dumps(outcome.to_dict()),
    }


def refusal(lease: Lease, outcome: Outcome, row: Sequence[Any] | None) -> ClaimLost | None:
    """Why the lease ended nothing, by the row of `ended_attempts` for its cell; None if its attempt
    has ended in the same way already."""
    if row is None:
        return ClaimLost(f"the ledger knows no cell {lease.fingerprint[:8]}")
    token, ended_token, runner, finished = row
    name = f"attempt {lease.attempt} of cell {lease.fingerprint[:8]}"
    if token == lease.token > ended_token:
        return ClaimLost(
            f"{name} holds no longer: the server lost that it was claimed, and {runner} claimed it "
            "since"
        )
    if ended_token != lease.token:
        return ClaimLost(
            f"{name} holds no longer: its token is {lease.token}, the cell's is {token}"
        )
    had = json.loads(finished)["outcome"]
    if (had["state"], had["digest"]) != (outcome.state, outcome.digest):
        return ClaimLost(f"{name} has ended already, as {had['state']}")
    return None
