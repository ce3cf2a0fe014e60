"""Which devices the next slot gets, and what no slot can take: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
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
    def seats(self) -> int:
        """Slots that may share one device."""
        return max(1, -(-self.slots // max(1, len(self.devices))))


def without(pool: Pool, devices: tuple[Device, ...]) -> Pool:
    """The pool less devices that are not fit."""
    left = tuple(device for device in pool.devices if device not in devices)
    return replace(pool, devices=left, slots=min(pool.slots, pool.seats * len(left)))


def next_group(
    pool: Pool, open_slots: Iterable[tuple[Device, ...]], width: int, memory: int = 0
) -> tuple[Device, ...] | None:
    """The devices for one more slot of `width` devices, or None where there is no room.

    A slot of one device takes the seat where most are free; a wider one takes whole devices.
    Each has at least `memory` bytes, and among equals the smallest that fit are taken.
    """
    taken: Counter[Device] = Counter()
    count = 0
    for devices in open_slots:
        count += 1
        taken.update({device: pool.seats if len(devices) > 1 else 1 for device in devices})
    if count >= pool.slots:
        return None
    room = pool.seats if width > 1 else 1
    fit = [d for d in pool.devices if taken[d] + room <= pool.seats and d.memory >= memory]
    if len(fit) < width:
        return None
    order = sorted(fit, key=lambda d: (taken[d], d.memory, pool.devices.index(d)))
    return tuple(order[:width])


def impossible(cell: Cell, pool: Pool) -> str:
    """Why no slot of this pool can ever take the cell; ``""`` where one can."""
    if not pool.devices:
        return "no device is left that a slot starts on"
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
