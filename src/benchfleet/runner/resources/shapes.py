"""What machines have and what slots are to be, and what no slot can take: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchfleet.domain.hardware import MachineHardware, hardware_problem
from benchfleet.domain.placement import ANYWHERE
from benchfleet.domain.resource import CPU, Device, Need, hardware_of
from benchfleet.domain.usage import Price


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The devices of one machine, and how many slots may share them."""

    devices: tuple[Device, ...]
    slots: int  # open at once, over all devices
    threads: int = 1  # for each slot
    price: Price | None = None  # of the machine, or of each of its GPUs
    begin: int = 0  # slots in each memory at first, and more as there is room; 0: all at once
    rented: MachineHardware | None = None  # what it was rented as

    @property
    def host(self) -> str:
        """The machine; ``""`` for this one."""
        return self.devices[0].host if self.devices else ""

    @property
    def hardware(self) -> MachineHardware:
        """What the machine has."""
        return self.rented or hardware_of(self.devices)

    @property
    def slots_per_device(self) -> int:
        """Slots that may share one device."""
        return max(1, -(-self.slots // max(1, len(self.devices))))

    @property
    def shares_memory(self) -> bool:
        """Whether two of its slots may be in one memory."""
        return self.slots > len(memories(self))


class SlotShape(NamedTuple):
    """What the slot of a cell is to be."""

    width: int  # devices
    endpoint: str = ""  # the server elsewhere that it asks; it has no other device
    alone: bool = False  # no other slot is to be in the memory that it has
    memory: int = 0  # bytes on each of its GPUs, beside what the cell needs
    last_resort: bool = False  # it is best run elsewhere, and here when nothing else is left
    excluded_hosts: frozenset[str] = ANYWHERE  # they may not have it
    preferred_host: str | None = None  # of the plan; None: any

    def suits(self, host: str) -> bool:
        """Whether the cell may be run there, and is meant to."""
        return host not in self.excluded_hosts and self.preferred_host in (None, host)


def memory_of(device: Device) -> str:
    """The memory that slots on it share: the GPU's own, or that of a machine's CPU."""
    if device.kind != "cpu":
        return device.label
    return f"{device.host}/{CPU}" if device.host else CPU


def memories(pool: Pool) -> list[str]:
    """Every memory of the pool, once."""
    return list(dict.fromkeys(map(memory_of, pool.devices)))


def without(pool: Pool, devices: tuple[Device, ...]) -> Pool:
    """The pool less devices that are not fit."""
    remaining = tuple(device for device in pool.devices if device not in devices)
    return replace(
        pool,
        devices=remaining,
        slots=min(pool.slots, pool.slots_per_device * len(remaining)),
    )


def with_device(pools: Iterable[Pool], origin: Pool, device: Device) -> list[Pool]:
    """The pools with one more device, and so with as many more slots as shared one where its
    machine came with the pool `origin`; new slots have their part of the same cores."""
    remaining = [pool for pool in pools if pool.devices and pool.host != device.host]
    pool = next((pool for pool in pools if pool.devices and pool.host == device.host), None)
    devices = pool.devices if pool else ()
    if device in devices:
        return list(pools)
    order = sorted((*devices, device), key=lambda one: one.index)
    slots = (pool.slots if pool else 0) + origin.slots_per_device
    threads = max(1, origin.threads * origin.slots // slots)
    return [*remaining, replace(origin, devices=tuple(order), slots=slots, threads=threads)]


def larger_than(devices: Sequence[Device], pools: Iterable[Pool]) -> int:
    """Bytes of clearly more memory than the smallest of these GPUs has, where a machine has as many
    such GPUs; 0 where none has. GPUs of one make differ a little."""
    floor = int(1.1 * min(device.memory for device in devices))
    exists = any(sum(d.memory >= floor for d in pool.devices) >= len(devices) for pool in pools)
    return floor if exists and devices[0].kind == "gpu" else 0


NO_DEVICE = "no device is left that a slot starts on"
_NONE: Mapping[str, str] = {}


def impossible(need: Need, pools: Sequence[Pool], barred: Mapping[str, str] = _NONE) -> str:
    """Why no slot of these pools can ever take a cell that needs this; ``""`` where one can.
    `barred` are the machines that may not have it, each with the reason."""
    off: dict[str, str] = {}
    too_small: list[Pool] = []
    for pool in (pool for pool in pools if pool.devices):
        if why := barred.get(pool.host):
            off[pool.host] = why
        elif _lack(need, pool)[0]:
            too_small.append(pool)
        else:
            return ""
    if not off and not too_small:
        return NO_DEVICE
    if too_small:
        largest = max(too_small, key=lambda pool: _size(need, pool))
        off[largest.host] = _why_too_small(need, largest, of=len(too_small))
    if len(set(off.values())) == 1:
        return next(iter(off.values()))
    return "; ".join(f"{host or 'here'}: {why}" for host, why in off.items())


def slots_for(need: Need, pools: Iterable[Pool]) -> int:
    """How many slots for such cells could be open at once, if there were no others."""
    return sum(
        _slots_on(need, pool) for pool in pools if pool.devices and not any(_lack(need, pool))
    )


def _slots_on(need: Need, pool: Pool) -> int:
    if not need.gpus:
        return pool.slots
    fit = sum(device.kind == "gpu" and device.memory >= need.vram for device in pool.devices)
    return fit // need.gpus if need.gpus > 1 else min(pool.slots, fit * pool.slots_per_device)


def _why_too_small(need: Need, largest: Pool, *, of: int) -> str:
    asks, has = _lack(need, largest)
    if not has:
        return asks
    if of == 1 and not largest.host:
        return f"{asks}, this run has {has}"
    return f"{asks}, the largest machine ({largest.host or 'this one'}) has {has}"


def _lack(need: Need, pool: Pool) -> tuple[str, str]:
    """What a cell asks for that no slot of the pool has, and what it has of that; empty where a
    slot has all."""
    if why := hardware_problem(need.hardware, pool.hardware):
        return why, ""
    if need.endpoint:
        return "", ""
    memories = _memories(pool)
    if need.gpus > len(memories):
        return f"needs {need.gpus} GPUs" if need.gpus > 1 else "needs 1 GPU", f"{len(memories)}"
    if not need.vram:
        return "", ""
    asks = f"needs {need.vram / 1e9:g} GB of GPU memory"
    if not memories:
        return asks, "no GPU"
    smallest = memories[max(1, need.gpus) - 1]
    return (asks, f"{smallest / 1e9:.1f}") if smallest < need.vram else ("", "")


def _memories(pool: Pool) -> list[int]:
    """Bytes of each of its GPUs, the largest first."""
    return sorted((d.memory for d in pool.devices if d.kind == "gpu"), reverse=True)


def _size(need: Need, pool: Pool) -> tuple[int, int]:
    """By what pools are compared that cannot take a cell: the GPUs that it could have, and the
    memory of the smallest of these."""
    memories = _memories(pool)[: max(1, need.gpus)]
    return len(memories), min(memories, default=0)
