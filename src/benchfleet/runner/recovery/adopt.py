"""Adopts existing results: ends their cells by the calls that every ledger has."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.domain.slots import ENDED
from benchfleet.errors import LedgerError
from benchfleet.ledger.base import Ledger
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.runner.resources.local_host import LocalHost

CLAIM_BATCH = 64  # cells claimed at once
_CLAIM_PAUSE_S, _CLAIM_TIMEOUT_S = 0.5, 600.0  # seconds; between two claims, and of waiting for any

T = TypeVar("T")
# How a cell ended, and its sealed folder with the public path; None where it is published already.
Ended = tuple[Outcome, tuple[Path, Path] | None]


@contextmanager
def registered(ledger: Ledger, runner: RunnerId, local_host: LocalHost) -> Iterator[None]:
    """Let the others know this runner, so that they find its results. In the end it releases the
    cells that it still holds."""
    ledger.record(local_host.began(runner))
    try:
        yield
    finally:
        with suppress(LedgerError):  # then the leases expire
            running = ledger.cells(states=["running"], parts=True)
            if leases := [record.lease for record in running if record.runner == runner]:
                ledger.release(leases, "its runner was stopped")
            ledger.record(Event(kind=ENDED, data={"runner": runner}))


def finish_cells(
    ledger: Ledger,
    runner: RunnerId,
    results: Mapping[str, T],
    seal: Callable[[Claim, T], Ended],
    *,
    publish_all: PublishAll = publish_all,
    pause: Callable[[float], None] = time.sleep,
    seen: ProgressCallback = ignore_progress,
) -> list[T]:
    """Claim the cells of these results, by fingerprint, end each as `seal` says, and publish it.

    Returns the results whose cells others hold. Cells in a final state are to be pending again
    before. Raises ResultsError for the first that cannot be published, after the others are.
    """
    seen(0, len(results))
    waiting = dict(results)
    left_over: list[T] = []
    for claims in claims_of(ledger, runner, waiting, pause):
        some = [(claim, waiting.pop(claim.lease.fingerprint)) for claim in claims]
        ended = [(claim.lease, *seal(claim, one)) for claim, one in some]
        refused = ledger.finish_all([(lease, outcome) for lease, outcome, _ in ended])
        moves = []
        for (_, one), (_, _, move), error in zip(some, ended, refused, strict=True):
            if error is None:
                moves += [move] if move else []
                continue
            left_over.append(one)  # another runner has the cell
            if move:
                shutil.rmtree(move[0], ignore_errors=True)
        if problem := next(filter(None, publish_all(moves)), None):
            raise problem
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
