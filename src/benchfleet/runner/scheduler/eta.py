"""Estimates how long a run should still take, and how far that may be off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot

from benchfleet.runner.progress import Eta
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.time_left import signed_seconds_left


@dataclass(frozen=True, kw_only=True)
class _Share:
    """A slot, of this runner or another: how fast it works, and what it has at hand."""

    speed: float  # 1 where cells take as long as is expected of their kinds
    seconds: float  # until the cell that it runs should end
    overdue: float  # seconds since it should have
    running: bool
    has_gpu: bool


def eta(backlog: Backlog, slots: Slots, now: float) -> Eta | None:
    """All that waits and runs, by the speed of the slots. Cells that need a GPU count for the slots
    that have one. Other runners' slots count while they run a cell.

    None while nobody knows: no time is known, cells wait and no slot takes them, or a cell is over
    its time by more than all should still take.

    Cells of each server elsewhere run beside the others. The spread is how far expected times were
    off so far, and half a cell for an uneven end.
    """
    if backlog.estimates.typical is None:
        return None
    endpoints = backlog.endpoints.union(slot.endpoint for slot in slots)
    etas = [_eta_of(endpoint, backlog, slots, now) for endpoint in sorted(endpoints | {""})]
    known_etas = [one for one in etas if one is not None]
    return max(known_etas, key=lambda one: one.seconds) if len(known_etas) == len(etas) else None


def _eta_of(endpoint: str, backlog: Backlog, slots: Slots, now: float) -> Eta | None:
    """Of the cells that ask this server elsewhere, or of those in slots on devices."""
    remaining = backlog.remaining(endpoint)
    shares = list(_shares(endpoint, backlog, slots, now))
    with_gpu = [share for share in shares if share.has_gpu]
    if (remaining.cells and not shares) or (remaining.gpu_seconds and not with_gpu):
        return None
    cells = remaining.cells + sum(share.running for share in shares)
    fastest = max((share.speed for share in shares), default=1.0)
    seconds = max(
        _takes(remaining.seconds + remaining.loads, shares, cells),
        _takes(remaining.gpu_seconds, with_gpu, cells),
        max((share.seconds for share in shares), default=0.0),
        remaining.longest / fastest,
    )
    if max((share.overdue for share in shares), default=0.0) > seconds:
        return None
    uneven = (
        remaining.seconds / remaining.cells / 2
        if remaining.cells and min(cells, len(shares)) > 1
        else 0.0
    )
    spread = hypot(seconds * backlog.estimates.error(cells), uneven)
    return Eta(seconds=seconds, spread=spread, at=now)


def _shares(endpoint: str, backlog: Backlog, slots: Slots, now: float) -> Iterator[_Share]:
    for slot in (slot for slot in slots if slot.endpoint == endpoint):
        usual = backlog.estimates.typical
        remaining = signed_seconds_left(slot, backlog.estimates, now, unknown=usual) or 0.0
        yield _Share(
            speed=1 / backlog.estimates.slowdown(slot.device_type),
            seconds=max(0.0, remaining),
            overdue=max(0.0, -remaining),
            running=slot.attempt is not None,
            has_gpu=slot.gpus > 0,
        )
    for cell, since in backlog.running_elsewhere.items():
        if backlog.endpoint_of(cell) != endpoint:
            continue
        usual = backlog.estimates.expected(cell) or backlog.estimates.typical or 0.0
        remaining = usual - (now - since)
        yield _Share(
            speed=1.0,
            seconds=max(0.0, remaining),
            overdue=max(0.0, -remaining),
            running=True,
            has_gpu=False,
        )


def _takes(seconds: float, shares: Sequence[_Share], cells: int) -> float:
    """Seconds until these slots have done what waits too, where there are so many cells."""
    if not shares:
        return 0.0
    speed = sum(share.speed for share in shares) * min(1.0, max(cells, 1) / len(shares))
    return (seconds + sum(share.seconds * share.speed for share in shares)) / speed
