"""Ends the cells that no machine can take, once an engine gives up on getting their machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from benchfleet.domain.attempt import Claim, Outcome
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Need
from benchfleet.runner.attempt.retry_policy import first_reason
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.resources.devices import Devices
from benchfleet.runner.run_state import RunState

_GROUP = 100  # cells that are claimed at once


def end_unplaceable(
    context: RunnerContext,
    devices: Devices,
    state: RunState,
    failure_of: Callable[[Need], Failure | None],
) -> None:
    """Finish the waiting cells that no machine can take as failed, if a machine for them was given
    up: `failure_of` says why. That uses up no try.

    Nothing is done while other runners have cells of the campaign: they may have the machines.
    Raises LedgerAway.
    """
    failures = {
        str(cell.fingerprint): failure
        for cell, _ in devices.impossible
        if (failure := failure_of(cell.need)) is not None
    }
    waiting = list(failures)
    if not waiting or _others_run(context):
        return
    for begin in range(0, len(waiting), _GROUP):
        group = waiting[begin : begin + _GROUP]
        claims = context.ledger.claim(context.runner, group, len(group))
        ended = [
            (claim.lease, _outcome(claim, failures[claim.lease.fingerprint])) for claim in claims
        ]
        refused = context.ledger.finish_all(ended) if ended else ()
        for claim, (_, outcome), error in zip(claims, ended, refused, strict=True):
            if error is not None:
                continue  # it was cancelled meanwhile
            failure = failures[claim.lease.fingerprint]
            state.progress.move(claim.lease.fingerprint, outcome.state)
            state.notify(
                "cell_failed",
                cell=claim.path,
                message=outcome.why,
                retry_in=None,
                differently="",
                attempt=claim.lease.attempt,
                failure=[failure.stage, failure.kind],
            )


def _others_run(context: RunnerContext) -> bool:
    records = context.ledger.cells(states=["running"], parts=True)
    return any(record.runner not in ("", context.runner) for record in records)


def _outcome(claim: Claim, failure: Failure) -> Outcome:
    after = claim.retry_of
    before = after.failures if after else {}
    had_samples = after is not None and after.state == "partial"
    return Outcome(
        state="partial" if had_samples else "failed",
        failure=failure,
        charged=False,
        first=first_reason(after, failure),
        failures=Counter(before) + Counter({failure.kind: 1}),
    )
