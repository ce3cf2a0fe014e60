"""Ending cells whose results are there already, by the verbs that every ledger has."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TypeVar

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.resource import Choice, Offer
from benchfleet.domain.seen import Seen, unseen
from benchfleet.errors import ClaimLost
from benchfleet.ledger.base import Ledger
from benchfleet.runner.ending.writers import Writers

TOGETHER = 64  # cells claimed at once
_PAUSE, _PATIENCE = 0.5, 600.0  # seconds; between two claims, and of waiting for any

T = TypeVar("T")
Ready = tuple[Outcome, Callable[[], object]]  # how a cell ended, and what follows once that is told


def end_each(
    ledger: Ledger,
    runner: RunnerId,
    found: Mapping[str, T],
    prepare: Callable[[Claim, T], Ready],
    *,
    pause: Callable[[float], None] = time.sleep,
    seen: Seen = unseen,
) -> list[T]:
    """Claim the cells, by fingerprint, of all that was found, and end each as `prepare` says; what
    is left because others hold its cell. Those that have ended are to be pending again before."""
    seen(0, len(found))
    waiting = dict(found)
    held: list[T] = []
    problems: list[Exception] = []

    def finish(claim: Claim, one: T, outcome: Outcome, then: Callable[[], object]) -> None:
        try:
            ledger.finish(claim.lease, outcome)
            then()
        except ClaimLost:
            held.append(one)
        except Exception as error:  # noqa: BLE001 - raised below, when the others have ended
            problems.append(error)

    writers = Writers(getattr(ledger, "writers", None) or 1)
    try:
        for claim in claims_of(ledger, runner, waiting, pause):
            one = waiting.pop(claim.lease.fingerprint)
            writers.give(partial(finish, claim, one, *prepare(claim, one)))
            seen(len(found) - len(waiting), len(found))
    finally:
        writers.close()
    for problem in problems:
        raise problem
    return [*held, *waiting.values()]


def claims_of(
    ledger: Ledger,
    runner: RunnerId,
    waiting: Collection[str],
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Claim]:
    """Claims of these cells, as long as there are any to be had; whoever gets one takes it out of
    `waiting`. A hosted repository gives them with its next push."""
    patience = _PATIENCE if getattr(ledger, "writers", None) else 0.0
    waited = 0.0
    while waiting:
        left = any(True for _ in ledger.cells(states=["pending"], among=waiting))
        offer = Offer(gpus=2**31, vram=2**62, among=Choice(waiting))
        if claims := ledger.claim(runner, offer, TOGETHER):
            waited = 0.0
            yield from claims
        elif left and waited < patience:
            pause(_PAUSE)
            waited += _PAUSE
        else:
            return
