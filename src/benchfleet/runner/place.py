"""Which devices the next slot gets, and what no slot can take: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import CPU, Device
from benchfleet.domain.usage import Price


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The devices of one machine, and how many slots may share them."""

    devices: tuple[Device, ...]
    slots: int  # open at once, over all devices
    threads: int = 1  # for each slot
    price: Price | None = None  # of the machine, or of each of its GPUs
    begin: int = 0  # slots in each memory at first, and more as there is room; 0: all at once

    @property
    def host(self) -> str:
        """The machine; ``""`` for this one."""
        return self.devices[0].host if self.devices else ""

    @property
    def seats(self) -> int:
        """Slots that may share one device."""
        return max(1, -(-self.slots // max(1, len(self.devices))))


class Shape(NamedTuple):
    """What the slot of a cell is to be."""

    width: int  # devices
    alone: bool = False  # no other slot is to be in the memory that it has
    memory: int = 0  # bytes on each of its GPUs, beside what the cell needs
    late: bool = False  # it is best run elsewhere, and here when nothing else is left


def memory_of(device: Device) -> str:
    """The memory that slots on it share: the GPU's own, or that of a machine's CPU."""
    if device.kind == "gpu":
        return device.label
    return f"{device.host}/{CPU}" if device.host else CPU


def memories(pool: Pool) -> list[str]:
    """Every memory of the pool, once."""
    return list(dict.fromkeys(map(memory_of, pool.devices)))


def without(pool: Pool, devices: tuple[Device, ...]) -> Pool:
    """The pool less devices that are not fit."""
    left = tuple(device for device in pool.devices if device not in devices)
    return replace(pool, devices=left, slots=min(pool.slots, pool.seats * len(left)))


def with_device(pools: Iterable[Pool], origin: Pool, device: Device) -> list[Pool]:
    """The pools with one more device, and so with as many more slots as shared one where its
    machine came with the pool `origin`; new slots have their part of the same cores."""
    left = [pool for pool in pools if pool.devices and pool.host != device.host]
    known = next((pool for pool in pools if pool.devices and pool.host == device.host), None)
    devices = known.devices if known else ()
    if device in devices:
        return list(pools)
    order = sorted((*devices, device), key=lambda one: one.index)
    slots = (known.slots if known else 0) + origin.seats
    threads = max(1, origin.threads * origin.slots // slots)
    return [*left, replace(origin, devices=tuple(order), slots=slots, threads=threads)]


def next_group(
    pools: Iterable[Pool],
    open_slots: Iterable[tuple[Device, ...]],
    width: int,
    memory: int = 0,
    *,
    gpu: bool = False,
    alone: bool = False,
    kept: Container[Device] = (),
    full: Container[str] = (),
) -> tuple[Device, ...] | None:
    """The devices for one more slot of `width` devices, or None where there is no room.

    The machine with the largest part of its slots free gives them. There, a slot of one device
    takes the seat where most are free; a wider one takes whole devices. Each has at least
    `memory` bytes and is a GPU where `gpu` says so; among equals the smallest that fit are taken.
    One that is to be `alone` shares no GPU, and on the CPU no machine; `kept` are the devices that
    open slots share with nobody, and `full` the memories in which no other slot is wanted.
    """
    taken = list(open_slots)
    found = []
    for pool in pools:
        here = [devices for devices in taken if devices[0].host == pool.host]
        taken_here: Counter[Device] = Counter()
        for devices in here:
            whole = len(devices) > 1 or devices[0] in kept
            taken_here.update(dict.fromkeys(devices, pool.seats if whole else 1))
        on_cpu = bool(pool.devices) and pool.devices[0].kind == "cpu"
        wanted = len(pool.devices) if alone and on_cpu else width
        if len(here) < pool.slots and (
            group := _group(pool, taken_here, wanted, memory, gpu=gpu, alone=alone, full=full)
        ):
            found.append((len(here) / pool.slots, group))
    return min(found, key=lambda one: one[0])[1] if found else None


def _group(
    pool: Pool,
    taken: Counter[Device],
    width: int,
    memory: int,
    *,
    gpu: bool,
    alone: bool,
    full: Container[str],
) -> tuple[Device, ...] | None:
    room = pool.seats if width > 1 or alone else 1
    fit = [
        device
        for device in pool.devices
        if taken[device] + room <= pool.seats
        and memory_of(device) not in full
        and device.memory >= memory
        and (device.kind == "gpu" or not gpu)
    ]
    if len(fit) < width:
        return None
    order = sorted(fit, key=lambda d: (taken[d], d.memory, pool.devices.index(d)))
    return tuple(order[:width])


def in_one_memory(one: Sequence[Device], other: Sequence[Device]) -> bool:
    """Whether slots on these devices take from each other's memory: GPUs that both have, or the
    CPU of one machine."""
    on_cpu = one[0].kind == other[0].kind == "cpu" and one[0].host == other[0].host
    return on_cpu or not set(one).isdisjoint(other)


def larger_than(devices: Sequence[Device], pools: Iterable[Pool]) -> int:
    """Bytes of clearly more memory than the smallest of these GPUs has, where a machine has as many
    such GPUs; 0 where none has. GPUs of one make differ a little."""
    floor = int(1.1 * min(device.memory for device in devices))
    found = any(sum(d.memory >= floor for d in pool.devices) >= len(devices) for pool in pools)
    return floor if found and devices[0].kind == "gpu" else 0


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
