"""Adopts existing results: ends their cells by the calls that every ledger has."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.ledger.base import Ledger

CLAIM_BATCH = 64  # cells claimed at once
_CLAIM_PAUSE_S, _CLAIM_TIMEOUT_S = 0.5, 600.0  # seconds; between two claims, and of waiting for any

T = TypeVar("T")
Ready = tuple[Outcome, Callable[[], object]]  # how a cell ended, and the step after its finish


def finish_cells(
    ledger: Ledger,
    runner: RunnerId,
    results: Mapping[str, T],
    prepare: Callable[[Claim, T], Ready],
    *,
    pause: Callable[[float], None] = time.sleep,
    seen: ProgressCallback = ignore_progress,
) -> list[T]:
    """Claim the cells, by fingerprint, of all that was found, and end each as `prepare` says; what
    is left because others hold its cell. Those that have ended are to be pending again before."""
    seen(0, len(results))
    waiting = dict(results)
    left_over: list[T] = []
    problems: list[Exception] = []
    for claims in claims_of(ledger, runner, waiting, pause):
        some = [(claim, waiting.pop(claim.lease.fingerprint)) for claim in claims]
        ready = [prepare(claim, one) for claim, one in some]
        leases = [claim.lease for claim in claims]
        outcomes = [outcome for outcome, _ in ready]
        refused = ledger.finish_all(list(zip(leases, outcomes, strict=True)))
        for (_, one), (_, then), error in zip(some, ready, refused, strict=True):
            if error is not None:
                left_over.append(one)
                continue
            try:
                then()
            except Exception as problem:  # noqa: BLE001 - raised when the others are published
                problems.append(problem)
        if problems:
            raise problems[0]
        seen(len(results) - len(waiting), len(results))
    return [*left_over, *waiting.values()]


def claims_of(
    ledger: Ledger,
    runner: RunnerId,
    waiting: Collection[str],
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Sequence[Claim]]:
    """Claims of these cells, some at a time, while there are any; the caller takes each out of
    `waiting`. A hosted repository gives them with its next push."""
    timeout = _CLAIM_TIMEOUT_S if ledger.hosted else 0.0
    waited = 0.0
    while waiting:
        any_pending = any(True for _ in ledger.cells(states=["pending"], fingerprints=waiting))
        if claims := ledger.claim(runner, list(waiting), CLAIM_BATCH):
            waited = 0.0
            yield claims
        elif any_pending and waited < timeout:
            pause(_CLAIM_PAUSE_S)
            waited += _CLAIM_PAUSE_S
        else:
            return
