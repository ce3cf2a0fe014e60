"""Whether, when and how a failed cell is tried again: pure functions over the failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchfleet.domain.attempt import Advice, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure

FIRST_DELAY_S = 2.0  # seconds
MAX_DELAY_S = 600.0
MAX_REQUESTED_DELAY_S = 3600.0  # of what a server may ask for
MAX_FREE_HOST_LOSSES = 10  # hosts that a cell may lose before each further one uses up a try
MAX_FREE_FULL_DISKS = 3  # the same for disks other than that of the results, which is waited for
MAX_FREE_OUTAGES = 8  # failures because the cell's server is away; delays of about six minutes
INFRASTRUCTURE = frozenset({"host_lost", "interrupted", "disk_full"})  # kinds that use up no try


@dataclass(frozen=True, kw_only=True)
class AttemptMemory:
    """What of memory an attempt had when it failed, and could have had."""

    batch_size: int = 1  # the effective one
    shared: bool = False  # other slots of its runner were in the same memory
    larger: int = 0  # bytes of more than its GPUs have, that others here do have; 0: none has


def next_advice(failure: Failure, advice: Advice, had: AttemptMemory) -> Advice | None:
    """What the next attempt is to do differently after a lack of memory; None where nothing is
    left, or it was no such failure.

    Half the batch first, which is no help where the model itself did not fit; then without
    neighbours; then on larger GPUs. Each step is taken a finite number of times, so that none of
    them uses up a try.
    """
    if failure.kind != "oom" or not failure.retryable:
        return None
    if failure.stage == "benchmark" and had.batch_size > 1:
        return replace(advice, batch_size=had.batch_size // 2)
    if had.shared and not advice.alone:
        return replace(advice, alone=True)
    if had.larger > advice.vram:
        return replace(advice, vram=had.larger)
    return None


def first_reason(after: Outcome | None, failure: Failure) -> Failure | None:
    """The cell's first true reason where `failure` is a later one; `after` is the outcome before.

    A failure of the infrastructure gives way to one of the cell.
    """
    before = after.reason if after else None
    if before is None or (before.kind in INFRASTRUCTURE and failure.kind not in INFRASTRUCTURE):
        return None
    return before


def is_outage(failure: Failure, cell: Cell) -> bool:
    """Whether the server elsewhere that the cell asks is away. It is waited for, unless the cell
    has one try: that one fails at once."""
    is_elsewhere = bool(cell.need.endpoint)
    return failure.kind == "server_unavailable" and is_elsewhere and cell.limits.tries > 1


def charged(failure: Failure, *, before: int = 0, outage: bool = False) -> bool:
    """Whether the failure uses up one of the cell's tries; an `outage` as `is_outage` says.

    `before` counts its failures of this kind until then: a cell that loses one host after another,
    or fills one disk after another, is more likely to be what does it.
    """
    if outage:
        return before >= MAX_FREE_OUTAGES
    if failure.kind == "host_lost":
        return before >= MAX_FREE_HOST_LOSSES
    if failure.kind == "disk_full" and failure.stage != "collect":
        return before >= MAX_FREE_FULL_DISKS
    return failure.kind not in INFRASTRUCTURE


def retry_in(
    failure: Failure,
    *,
    charged: bool,
    tries: int,
    allowed: int,
    random: Callable[[], float],
    outages: int | None = None,
) -> float | None:
    """Seconds until the next try, or None where this was the last.

    `charged` says whether the failure used up a try; `tries` counts that one too. `outages` counts
    earlier ones of the cell's server where this is another. The delay doubles with every try and
    outage, and a random half of it is left off so that neighbours do not come back at once. It
    begins when a server wants to be asked again, after an hour at the latest.
    """
    if not charged and outages is None:
        return 0.0
    if charged and (not failure.retryable or tries >= allowed):
        return None
    doublings = max(tries - 1, outages or 0)
    delay = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0**doublings)
    requested = min(MAX_REQUESTED_DELAY_S, failure.retry_after_s)
    return requested + delay * (0.5 + 0.5 * random())
