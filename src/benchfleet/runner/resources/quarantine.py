"""Devices that are not to be used: for a while, since others compute there, or at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from benchfleet.domain.resource import Device
from benchfleet.runner.resources.shapes import Pool, without

RETRY_DEVICE_S = 60.0  # seconds until a busy device is looked at again
MAX_RETRY_DEVICE_S = 3600.0  # the same for one under which cell after cell failed


class Quarantine:
    """Which devices are left out, and why one more comes to be."""

    def __init__(self) -> None:
        self._out: set[Device] = set()
        self._aside: dict[Device, float] = {}  # until when, on the inbox's clock
        self._drained: set[Device] = set()
        self._reported: set[Device] = set()
        self._failures = Counter[Device]()  # in a row, under cells that may run elsewhere
        self._faults: dict[tuple[Device, ...], str] = {}  # the cell that failed there last

    def exclude(self, devices: Iterable[Device]) -> None:
        """Use these no more."""
        self._out.update(devices)

    def drain(self, devices: Iterable[Device]) -> None:
        """Let these be until somebody gives them back."""
        self._drained.update(devices)

    def admit(self, device: Device) -> None:
        """Use it again, whatever kept it out."""
        self._out.discard(device)
        self._drained.discard(device)
        self._aside.pop(device, None)
        self._reported.discard(device)
        self._failures.pop(device, None)
        self._faults = {d: cell for d, cell in self._faults.items() if device not in d}

    @property
    def drained(self) -> frozenset[Device]:
        """Those that somebody is to give back."""
        return frozenset(self._drained - self._out)

    def why(self, device: Device) -> str:
        """How it is kept out: ``left out``, ``drained``, ``left alone``; ``""`` where it is not."""
        if device in self._out:
            return "left out"
        if device in self._drained:
            return "drained"
        return "left alone" if device in self._aside else ""

    def set_aside(self, devices: Sequence[Device], now: float, *, failed: bool = False) -> bool:
        """Let these be for a while; whether that is news. `failed`: a cell failed there, which may
        run elsewhere. Each further one in a row doubles the time."""
        wait = RETRY_DEVICE_S
        if failed:
            wait = min(MAX_RETRY_DEVICE_S, wait * 2.0 ** max(self._failures[d] for d in devices))
            self._failures.update(devices)
        self._aside.update(dict.fromkeys(devices, now + wait))
        news = not self._reported.issuperset(devices)
        self._reported.update(devices)
        return news

    def take_back(self, now: float) -> bool:
        """Whether a device that was set aside may be looked at again."""
        due = [device for device, until in self._aside.items() if until <= now]
        for device in due:
            del self._aside[device]
        return bool(due)

    def works(self, devices: tuple[Device, ...]) -> None:
        """A cell ended well there."""
        self._faults.pop(devices, None)
        self._reported.difference_update(devices)
        for device in devices:
            self._failures.pop(device, None)

    def faulted(self, devices: tuple[Device, ...], cell: str) -> bool:
        """A GPU failed under a cell; whether it was the second cell in a row, so that it is the
        GPU. One cell alone may be at fault itself."""
        before = self._faults.setdefault(devices, cell)
        return before != cell

    def open_pools(self, pools: Iterable[Pool]) -> list[Pool]:
        """The pools as slots may be opened on them now."""
        kept_out = self._out | self._drained | self._aside.keys()
        return [_less(pool, kept_out) for pool in pools]

    def whole(self, pools: Iterable[Pool]) -> list[Pool]:
        """The pools with all that may be used some day."""
        return [_less(pool, self._out) for pool in pools]


def _less(pool: Pool, devices: Collection[Device]) -> Pool:
    """The pool less these; its slots stay as many for each device."""
    ours = pool.devices if devices else ()
    fenced = tuple(device for device in ours if device in devices)
    return without(pool, fenced) if fenced else pool
