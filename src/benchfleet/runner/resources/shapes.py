"""What machines have and what slots are to be, and what no slot can take: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchfleet.domain.placement import ANYWHERE
from benchfleet.domain.resource import CPU, Device, Need
from benchfleet.domain.usage import Price


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The devices of one machine, and how many slots may share them. Slots for served models are
    beside these: each has an endpoint of its own."""

    devices: tuple[Device, ...]
    slots: int  # open at once, over all devices
    threads: int = 1  # for each slot
    price: Price | None = None  # of the machine, or of each of its GPUs
    begin: int = 0  # slots in each memory at first, and more as there is room; 0: all at once
    endpoints: tuple[Device, ...] = ()

    @property
    def host(self) -> str:
        """The machine; ``""`` for this one."""
        return self.devices[0].host if self.devices else ""

    @property
    def slots_per_device(self) -> int:
        """Slots that may share one device."""
        return max(1, -(-self.slots // max(1, len(self.devices))))


class SlotShape(NamedTuple):
    """What the slot of a cell is to be."""

    width: int  # devices; 0: an endpoint
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
        endpoints=tuple(one for one in pool.endpoints if one not in devices),
    )


def endpoints(count: int, host: str = "") -> tuple[Device, ...]:
    """So many endpoints of a machine: cells that ask servers elsewhere at the same time."""
    return tuple(Device(kind="endpoint", index=index, host=host) for index in range(count))


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


_NONE: Mapping[str, str] = {}


def impossible(need: Need, pools: Sequence[Pool], barred: Mapping[str, str] = _NONE) -> str:
    """Why no slot of these pools can ever take a cell that needs this; ``""`` where one can.
    `barred` are the machines that may not have it, each with the reason."""
    reasons: dict[str, str] = {}
    for pool in (pool for pool in pools if pool.devices):
        if not (why := barred.get(pool.host) or _impossible(need, pool)):
            return ""
        reasons[pool.host] = why
    if not reasons:
        return "no device is left that a slot starts on"
    if len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    return "; ".join(f"{host or 'here'}: {why}" for host, why in reasons.items())


def _impossible(need: Need, pool: Pool) -> str:
    if need.endpoint:
        return "" if pool.endpoints else "no slot for served models is left"
    memories = sorted((d.memory for d in pool.devices if d.kind == "gpu"), reverse=True)
    if need.gpus > len(memories):
        return f"needs {need.gpus} GPUs, this run has {len(memories)}"
    if not need.vram:
        return ""
    message = f"needs {need.vram / 1e9:g} GB of GPU memory"
    if not memories:
        return f"{message}, this run has no GPU"
    smallest = memories[max(1, need.gpus) - 1]
    return f"{message}, this run has {smallest / 1e9:.1f}" if smallest < need.vram else ""
