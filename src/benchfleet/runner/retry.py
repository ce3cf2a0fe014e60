"""Whether and when a failed cell is tried again: one pure function over the failure."""

from __future__ import annotations

from collections.abc import Callable

from benchfleet.domain.failure import Failure

FIRST_DELAY = 2.0  # seconds
LONGEST_DELAY = 600.0
MOST_LOSSES = 10  # hosts that a cell may lose before each further one uses up a try
INFRASTRUCTURE = frozenset({"host_lost", "interrupted", "disk_full"})  # kinds that use up no try


def charged(failure: Failure, *, losses: int = 0) -> bool:
    """Whether the failure uses up one of the cell's tries.

    `losses` counts its attempts before that used up none: a cell that loses one host after
    another is more likely to be what ends them.
    """
    if failure.kind == "host_lost" and losses >= MOST_LOSSES:
        return True
    return failure.kind not in INFRASTRUCTURE


def retry_in(
    failure: Failure, *, charged: bool, tries: int, allowed: int, random: Callable[[], float]
) -> float | None:
    """Seconds until the next try, or None where this was the last.

    `charged` says whether the failure used up a try; `tries` counts that one too. The delay
    doubles with every try, and a random half of it is left off so that neighbours do not come
    back at once.
    """
    if not charged:
        return 0.0
    if not failure.retryable or tries >= allowed:
        return None
    delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (tries - 1))
    return delay * (0.5 + 0.5 * random())
