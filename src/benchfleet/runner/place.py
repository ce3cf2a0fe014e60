"""Which devices the next slot gets, and what no slot can take: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Device


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The devices of one machine, and how many slots may share them."""

    devices: tuple[Device, ...]
    slots: int  # open at once, over all devices
    threads: int = 1  # for each slot

    @property
    def host(self) -> str:
        """The machine; ``""`` for this one."""
        return self.devices[0].host if self.devices else ""

    @property
    def seats(self) -> int:
        """Slots that may share one device."""
        return max(1, -(-self.slots // max(1, len(self.devices))))


def without(pool: Pool, devices: tuple[Device, ...]) -> Pool:
    """The pool less devices that are not fit."""
    left = tuple(device for device in pool.devices if device not in devices)
    return replace(pool, devices=left, slots=min(pool.slots, pool.seats * len(left)))


def next_group(
    pools: Iterable[Pool],
    open_slots: Iterable[tuple[Device, ...]],
    width: int,
    memory: int = 0,
) -> tuple[Device, ...] | None:
    """The devices for one more slot of `width` devices, or None where there is no room.

    The machine with the largest part of its slots free gives them. There, a slot of one device
    takes the seat where most are free; a wider one takes whole devices. Each has at least
    `memory` bytes, and among equals the smallest that fit are taken.
    """
    taken = list(open_slots)
    found = []
    for pool in pools:
        here = [devices for devices in taken if devices[0].host == pool.host]
        if group := _group(pool, here, width, memory):
            found.append((len(here) / pool.slots, group))
    return min(found, key=lambda one: one[0])[1] if found else None


def _group(
    pool: Pool, open_slots: Sequence[tuple[Device, ...]], width: int, memory: int
) -> tuple[Device, ...] | None:
    if len(open_slots) >= pool.slots:
        return None
    taken: Counter[Device] = Counter()
    for devices in open_slots:
        taken.update({device: pool.seats if len(devices) > 1 else 1 for device in devices})
    room = pool.seats if width > 1 else 1
    fit = [d for d in pool.devices if taken[d] + room <= pool.seats and d.memory >= memory]
    if len(fit) < width:
        return None
    order = sorted(fit, key=lambda d: (taken[d], d.memory, pool.devices.index(d)))
    return tuple(order[:width])


def impossible(cell: Cell, pools: Sequence[Pool]) -> str:
    """Why no slot of these pools can ever take the cell; ``""`` where one can."""
    reasons = {pool.host: _impossible(cell, pool) for pool in pools if pool.devices}
    if not reasons:
        return "no device is left that a slot starts on"
    if not all(reasons.values()):
        return ""
    if len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    return "; ".join(f"{host or 'here'}: {why}" for host, why in reasons.items())


def _impossible(cell: Cell, pool: Pool) -> str:
    memories = sorted((d.memory for d in pool.devices if d.kind == "gpu"), reverse=True)
    if cell.need.gpus > len(memories):
        return f"needs {cell.need.gpus} GPUs, this run has {len(memories)}"
    if not cell.need.vram:
        return ""
    wanted = f"needs {cell.need.vram / 1e9:g} GB of GPU memory"
    if not memories:
        return f"{wanted}, this run has no GPU"
    smallest = memories[max(1, cell.need.gpus) - 1]
    return f"{wanted}, this run has {smallest / 1e9:.1f}" if smallest < cell.need.vram else ""
