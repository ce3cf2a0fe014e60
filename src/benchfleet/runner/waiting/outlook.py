"""How long a run should still take, and how sure that is."""

from __future__ import annotations

from collections import Counter
from math import hypot, sqrt

from benchfleet.runner.progress import Outlook
from benchfleet.runner.slots.slot import Slot
from benchfleet.runner.slots.slots import Slots
from benchfleet.runner.waiting.backlog import Backlog
from benchfleet.runner.waiting.lanes import UNKNOWN

_ENOUGH = 5  # samples that tell more of a cell than others of its like


def outlook(backlog: Backlog, slots: Slots, now: float) -> Outlook | None:
    """What waits, spread over the slots, and what they run, those of other runners too; None while
    no time is known. A slot does as much as devices of its type were seen to do, and what needs a
    GPU is done by those that have one.

    The spread is that of the cells' own times, of what the estimates themselves and the paces of
    devices may be wrong by, and of how the last cells fall on the slots.
    """
    if (left := backlog.left()) is None:
        return None
    all_, with_gpu = _Share(), _Share()
    longest = 0.0
    for slot in slots:
        seconds, spread = _left_of(slot, backlog, now)
        longest = max(longest, seconds)
        all_.add(slot, backlog, seconds, spread)
        if slot.gpus:
            needs = slot.attempt is not None and slot.attempt.claim.cell.need.gpus > 0
            with_gpu.add(slot, backlog, seconds if needs else 0.0, spread)
    for cell, since in backlog.elsewhere.items():
        seconds, spread = _usual(backlog, cell, now - since)
        longest = max(longest, seconds)
        all_.add(None, backlog, seconds, spread)
    fastest = min((backlog.estimates.pace(one).factor for one in all_.types), default=1.0)
    longest = max(longest, left.longest * fastest)
    cells = left.cells + all_.running
    takes = all_.takes(left.seconds + left.loads, backlog, cells)
    on_gpus = with_gpu.takes(left.gpu_seconds, backlog, cells) if with_gpu.slots else 0.0
    share = with_gpu if on_gpus > takes else all_
    at_once = max(1, min(all_.slots, cells))
    uneven = left.seconds / left.cells / 2 if left.cells and at_once > 1 else 0.0
    seconds = max(takes, on_gpus, longest)
    own = sqrt(left.variance + all_.variance) / at_once
    return Outlook(
        seconds=seconds, spread=hypot(own, uneven, share.doubt(seconds, backlog)), at=now
    )


class _Share:
    """Slots that do some of the work, and what they have at hand: in seconds of the devices by
    which cells are estimated."""

    def __init__(self) -> None:
        self.types: Counter[str] = Counter()  # slots by their device
        self.others = 0  # those of other runners, of which the device is not known
        self.running = 0
        self.seconds = self.variance = 0.0

    @property
    def slots(self) -> int:
        return self.types.total() + self.others

    def add(self, slot: Slot | None, backlog: Backlog, seconds: float, spread: float) -> None:
        """One more slot, which is done in so many seconds; None: somewhere else."""
        factor = 1.0
        if slot is None:
            self.others += 1
        else:
            self.types[slot.device_type] += 1
            factor = backlog.estimates.pace(slot.device_type).factor
        self.running += slot is None or slot.attempt is not None
        self.seconds += seconds / factor
        self.variance += (spread / factor) ** 2

    def takes(self, seconds: float, backlog: Backlog, cells: int) -> float:
        """Seconds until they have done this too, where there are so many cells."""
        used = min(1.0, cells / self.slots) if self.slots else 1.0
        return (self.seconds + seconds) / max(self._rate(backlog) * used, 1e-9)

    def doubt(self, seconds: float, backlog: Backlog) -> float:
        """What the paces of devices may make these seconds wrong by."""
        parts = (backlog.estimates.pace(one) for one in self.types)
        wrong = [n * p.spread / p.factor for n, p in zip(self.types.values(), parts, strict=True)]
        return seconds * hypot(*wrong) / max(self._rate(backlog), 1e-9)

    def _rate(self, backlog: Backlog) -> float:
        """Seconds that they do in one."""
        by_type = (n / backlog.estimates.pace(one).factor for one, n in self.types.items())
        return sum(by_type) + self.others or 1.0


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
    return _usual(backlog, fingerprint, elapsed, slot.device_type)


def _usual(
    backlog: Backlog, fingerprint: str, elapsed: float, device_type: str | None = None
) -> tuple[float, float]:
    """Of a cell that began so long ago, by others of its like, or by all."""
    usual = backlog.estimates.left_of(fingerprint, elapsed, device_type)
    if usual is not None:
        return usual
    mean = backlog.estimates.mean or 0.0
    return max(0.0, mean - elapsed), mean
