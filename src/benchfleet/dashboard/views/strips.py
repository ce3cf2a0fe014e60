"""What each device did lately, as strips: loading a model, working, or idle."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchfleet.dashboard.fleet import WORK_SPAN_S, Work
from benchfleet.dashboard.views.slots import Slot

BINS = 144
SPANS_S = (3600.0, 6 * 3600.0, WORK_SPAN_S)  # the shortest that has all is shown
_LEVELS = 4  # heights of a bin


@dataclass(frozen=True, kw_only=True)
class Block:
    """Equal neighbours in a strip; positions and widths are numbers of bins, heights shares."""

    x: int
    width: int
    loading: float
    working: float


@dataclass(frozen=True, kw_only=True)
class Strip:
    """A device in the last hour, six hours or day."""

    device: str
    span: float  # seconds, until now
    blocks: Sequence[Block]
    begin: int  # the first bin of which anything is known
    loading: float  # share of the known time
    working: float

    @property
    def idle(self) -> float:
        return max(0.0, 1.0 - self.loading - self.working)


def strips(
    work: Iterable[Work], slots: Iterable[Slot], since: float
) -> Mapping[str, Sequence[Strip]]:
    """The strips of each host's devices. Nothing is known before `since`, in seconds since the
    epoch."""
    now = time.time()
    running = [
        Work(
            host=slot.host,
            device=slot.devices,
            begin=now - slot.seconds,
            loaded=now - slot.seconds,
            end=now - slot.silent,
            hourly=0.0,
            currency="",
        )
        for slot in slots
        if slot.row is not None and slot.seconds
    ]
    lanes: dict[tuple[str, str], list[Work]] = defaultdict(list)
    for one in (*work, *running):
        lanes[one.host, one.device].append(one)
    span = next((one for one in SPANS_S if now - since <= one), WORK_SPAN_S)
    begin = now - span
    first = max(0, min(BINS - 1, int((since - begin) / span * BINS)))
    by_host: dict[str, list[Strip]] = defaultdict(list)
    for (host, device), attempts in sorted(lanes.items()):
        by_host[host].append(_strip(device, attempts, span, begin, first))
    return by_host


def _strip(device: str, attempts: Sequence[Work], span: float, begin: float, first: int) -> Strip:
    loading, working = [0.0] * BINS, [0.0] * BINS
    for one in attempts:
        _add(loading, one.begin - begin, one.loaded - begin, span)
        _add(working, one.loaded - begin, one.end - begin, span)
    known_bins = BINS - first
    return Strip(
        device=device,
        span=span,
        blocks=_blocks(loading, working),
        begin=first,
        loading=min(1.0, sum(loading) / known_bins),
        working=min(1.0, sum(working) / known_bins),
    )


def _add(bins: list[float], begin: float, end: float, span: float) -> None:
    """Add an interval, in seconds since the first bin's begin, as shares of the bins."""
    size = span / BINS
    begin, end = max(0.0, begin), min(span, end)
    if end <= begin:
        return
    for index in range(int(begin / size), min(BINS - 1, int(end / size)) + 1):
        overlap = min(end, (index + 1) * size) - max(begin, index * size)
        bins[index] = min(1.0, bins[index] + max(0.0, overlap) / size)


def _blocks(loading: Sequence[float], working: Sequence[float]) -> list[Block]:
    blocks: list[Block] = []
    for x, shares in enumerate(zip(loading, working, strict=True)):
        load, work = (_level(share) for share in shares)
        last = blocks[-1] if blocks else None
        if last and last.x + last.width == x and (last.loading, last.working) == (load, work):
            blocks[-1] = Block(x=last.x, width=last.width + 1, loading=load, working=work)
        elif load or work:
            blocks.append(Block(x=x, width=1, loading=load, working=work))
    return blocks


def _level(share: float) -> float:
    """The share rounded up, so that a little work is seen."""
    return -(-share * _LEVELS // 1) / _LEVELS if share > 0.001 else 0.0
