"""How long slots should still be at their cells."""

from __future__ import annotations

from benchfleet.runner.progress import MIN_SAMPLES
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.scheduler.durations import DurationIndex


def signed_seconds_left(
    slot: Slot, estimates: DurationIndex, now: float, *, unknown: float | None = None
) -> float | None:
    """Seconds until the slot should have ended its cell; negative for a cell that is late.

    The samples of the cell tell, if enough were answered; else the times of its like; else
    `unknown`, the seconds that are assumed for such a cell. None means that nobody knows.
    """
    if (attempt := slot.attempt) is None:
        return 0.0
    fingerprint, display = attempt.claim.lease.fingerprint, slot.display
    expected = estimates.expected(fingerprint, slot.device_type)
    each = display.seconds_per_sample(now)
    if each is not None and (display.done - display.before >= MIN_SAMPLES or expected is None):
        return each * (display.total - display.done)
    if (expected := unknown if expected is None else expected) is None:
        return None
    if display.total:  # earlier attempts did a part of it
        expected *= 1 - min(display.before, display.total) / display.total
    if display.stage == "benchmark":
        return expected - (now - display.asked_since)
    name = attempt.claim.cell.model.name
    load = estimates.load(name, slot.device_type) if attempt.loads else 0.0
    return load + expected - (now - attempt.began)


def seconds_left(
    slot: Slot, estimates: DurationIndex, now: float, *, unknown: float | None = None
) -> float | None:
    """The same, where a cell that is late may be late by as much again."""
    remaining = signed_seconds_left(slot, estimates, now, unknown=unknown)
    return None if remaining is None else abs(remaining)
