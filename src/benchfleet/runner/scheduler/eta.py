"""Estimates how long a run should still take, and how far that may be off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot

from benchfleet.runner.progress import Eta
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog

_MIN_SAMPLES = 5  # that tell more of a cell than others of its like


@dataclass(frozen=True, kw_only=True)
class _Share:
    """A slot, of this runner or another: how fast it works, and what it has at hand."""

    speed: float  # 1 where cells take as long as is expected of their kinds
    seconds: float  # until the cell that it runs should end
    running: bool
    has_gpu: bool


def eta(backlog: Backlog, slots: Slots, now: float) -> Eta | None:
    """All that waits and runs, by the speed of the slots; None while no time is known. Cells that
    need a GPU count for the slots that have one. Other runners' slots count while they run a cell.

    Cells of each server elsewhere run beside the others. The spread is how far expected times were
    off so far, and half a cell for an uneven end.
    """
    if backlog.estimates.typical is None:
        return None
    endpoints = backlog.endpoints.union(slot.endpoint for slot in slots)
    etas = [_eta_of(endpoint, backlog, slots, now) for endpoint in sorted(endpoints | {""})]
    return max(etas, key=lambda one: one.seconds)


def _eta_of(endpoint: str, backlog: Backlog, slots: Slots, now: float) -> Eta:
    """Of the cells that ask this server elsewhere, or of those in slots on devices."""
    remaining = backlog.remaining(endpoint)
    shares = list(_shares(endpoint, backlog, slots, now))
    with_gpu = [share for share in shares if share.has_gpu]
    cells = remaining.cells + sum(share.running for share in shares)
    fastest = max((share.speed for share in shares), default=1.0)
    seconds = max(
        _takes(remaining.seconds + remaining.loads, shares, cells),
        _takes(remaining.gpu_seconds, with_gpu, cells),
        max((share.seconds for share in shares), default=0.0),
        remaining.longest / fastest,
    )
    uneven = (
        remaining.seconds / remaining.cells / 2
        if remaining.cells and min(cells, len(shares)) > 1
        else 0.0
    )
    spread = hypot(seconds * backlog.estimates.error(cells), uneven)
    return Eta(seconds=seconds, spread=spread, at=now)


def _shares(endpoint: str, backlog: Backlog, slots: Slots, now: float) -> Iterator[_Share]:
    for slot in (slot for slot in slots if slot.endpoint == endpoint):
        yield _Share(
            speed=1 / backlog.estimates.slowdown(slot.device_type),
            seconds=_seconds_left(slot, backlog, now),
            running=slot.attempt is not None,
            has_gpu=slot.gpus > 0,
        )
    for cell, since in backlog.running_elsewhere.items():
        if backlog.endpoint_of(cell) != endpoint:
            continue
        remaining = _usual(backlog, cell, now - since)
        yield _Share(speed=1.0, seconds=remaining, running=True, has_gpu=False)


def _takes(seconds: float, shares: Sequence[_Share], cells: int) -> float:
    """Seconds until these slots have done what waits too, where there are so many cells."""
    if not shares:
        return 0.0
    speed = sum(share.speed for share in shares) * min(1.0, max(cells, 1) / len(shares))
    return (seconds + sum(share.seconds * share.speed for share in shares)) / speed


def _seconds_left(slot: Slot, backlog: Backlog, now: float) -> float:
    """By the samples of the cell that runs, if some were answered; else by what is usual."""
    attempt = slot.attempt
    if attempt is None:
        return 0.0
    elapsed = now - attempt.began
    new, total = attempt.done - attempt.before, slot.display.total
    fingerprint = attempt.claim.lease.fingerprint
    has_estimate = backlog.estimates.kind(fingerprint).has_estimate
    if total >= attempt.done and (new >= _MIN_SAMPLES or (new and not has_estimate)):
        return elapsed / new * (total - attempt.done)
    return _usual(backlog, fingerprint, elapsed, slot.device_type)


def _usual(
    backlog: Backlog, fingerprint: str, elapsed: float, device_type: str | None = None
) -> float:
    """Of a cell that began so long ago, by others of its like, or by all."""
    usual = backlog.estimates.seconds_left(fingerprint, elapsed, device_type)
    if usual is not None:
        return usual
    return max(0.0, (backlog.estimates.typical or 0.0) - elapsed)
