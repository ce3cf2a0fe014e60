"""Whether and when a failed cell is tried again: one pure function over the failure."""

from __future__ import annotations

from collections.abc import Callable

from benchfleet.domain.failure import Failure

FIRST_DELAY = 2.0  # seconds
LONGEST_DELAY = 600.0
INFRASTRUCTURE = frozenset({"host_lost", "interrupted", "disk_full"})  # kinds that use up no try


def charged(failure: Failure) -> bool:
    """Whether the failure uses up one of the cell's tries."""
    return failure.kind not in INFRASTRUCTURE


def retry_in(
    failure: Failure, *, tries: int, allowed: int, random: Callable[[], float]
) -> float | None:
    """Seconds until the next try, or None where this was the last.

    `tries` counts this failure. The delay doubles with every try, and a random half of it is
    left off so that neighbours do not come back at once.
    """
    if not charged(failure):
        return 0.0
    if not failure.retryable or tries >= allowed:
        return None
    delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (tries - 1))
    return delay * (0.5 + 0.5 * random())
