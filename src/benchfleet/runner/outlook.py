"""How long a run should still take, and how sure that is."""

from __future__ import annotations

from math import sqrt

from benchfleet.runner.backlog import Backlog
from benchfleet.runner.lanes import UNKNOWN
from benchfleet.runner.progress import Outlook
from benchfleet.runner.slots import Slot, Slots

_ENOUGH = 5  # samples that tell more of a cell than others of its like


def outlook(backlog: Backlog, slots: Slots, now: float) -> Outlook | None:
    """What waits, spread over the slots, and what they run, those of other runners too; None while
    no time is known.

    The spread is that of the cells' own times, of what the estimates themselves may be wrong by,
    and of how the last cells fall on the slots.
    """
    if (left := backlog.left()) is None:
        return None
    running = [_left_of(slot, backlog, now) for slot in slots if slot.attempt is not None]
    running += [_usual(backlog, cell, now - since) for cell, since in backlog.elsewhere.items()]
    seconds = left.seconds + left.loads + sum(one for one, _ in running)
    variance = left.variance + sum(spread**2 for _, spread in running)
    slots_at_work = len(slots) + len(backlog.elsewhere)
    at_once = max(1, min(slots_at_work, left.cells + len(running)))
    longest = max([left.longest, *(one for one, _ in running)])
    uneven = left.seconds / left.cells / 2 if left.cells and at_once > 1 else 0.0
    return Outlook(
        seconds=max(seconds / at_once, longest),
        spread=sqrt(variance / at_once**2 + uneven**2),
        at=now,
    )


def _left_of(slot: Slot, backlog: Backlog, now: float) -> tuple[float, float]:
    """Of the cell that it runs: by its samples where some were answered, else by what is usual."""
    attempt = slot.attempt
    if attempt is None:
        return 0.0, 0.0
    elapsed = now - attempt.began
    new, total = attempt.done - attempt.before, slot.shown.total
    fingerprint = attempt.claim.lease.fingerprint
    known = backlog.estimates.kind(fingerprint).source != UNKNOWN
    if total >= attempt.done and (new >= _ENOUGH or (new and not known)):
        left = elapsed / new * (total - attempt.done)
        return left, left / sqrt(new)
    return _usual(backlog, fingerprint, elapsed)


def _usual(backlog: Backlog, fingerprint: str, elapsed: float) -> tuple[float, float]:
    """Of a cell that began so long ago, by others of its like, or by all."""
    if (usual := backlog.estimates.left_of(fingerprint, elapsed)) is not None:
        return usual
    mean = backlog.estimates.mean or 0.0
    return max(0.0, mean - elapsed), mean
