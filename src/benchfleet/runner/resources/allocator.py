"""The device allocator: what is used of each device, and which devices the next slot gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from benchfleet.domain.resource import Device
from benchfleet.runner.resources.endpoints import Endpoints
from benchfleet.runner.resources.shapes import Pool, memory_of

Free = Callable[[Device], float]  # seconds until everything on it has ended


class SlotNeeds(NamedTuple):
    """What one slot is to have."""

    width: int = 1  # devices
    endpoint: str = ""  # the server elsewhere that it asks; it has no other device
    memory: int = 0  # bytes that each of them has at least
    gpu: bool = False  # whether each must be a GPU
    alone: bool = False  # no other slot is to be in the memory that it has
    promised: int = 0  # bytes of each that are promised to it, and must be promised to nobody else

    def fits(self, device: Device) -> bool:
        """Whether a device qualifies, ignoring the slots on it."""
        return device.memory >= self.memory and (device.kind == "gpu" or not self.gpu)


class DeviceAllocator:
    """The devices of all machines, and the slots on them.

    A host opens no more slots than its pool allows. A slot of one device shares it; a wider slot,
    and one that runs alone, takes whole devices. The stated needs of its slots never exceed the
    memory of a GPU. A slot that asks a server elsewhere takes nothing of a pool: it counts for that
    server alone.
    """

    def __init__(self) -> None:
        self._machines: dict[str, _Machine] = {}  # by host, in their order
        self._endpoints = Endpoints()
        self.version = 0  # grows whenever one may be found that was not there before
        self._in_use: Counter[Device] = Counter()  # seats
        self._whole: Counter[Device] = Counter()  # slots that share it with nobody
        self._promised: Counter[Device] = Counter()  # bytes
        self._open: Counter[str] = Counter()  # slots by host
        self._inside: Counter[str] = Counter()  # slots by the memory that they are in
        self._limits: Mapping[str, int] = {}  # slots that may be in a memory

    def use(self, pools: Iterable[Pool]) -> None:
        """Give seats of these pools alone from now on."""
        before, self._machines = self._machines, {}
        for pool in (pool for pool in pools if pool.devices):
            machine = before.get(pool.host)
            same = machine is not None and machine.pool is pool
            self._machines[pool.host] = (
                machine if machine and same else _Machine(pool, self._in_use)
            )
        self.version += 1

    def use_endpoints(self, names: Collection[str], slots: int) -> None:
        """Cells ask these servers elsewhere, so many at a time each."""
        self._endpoints = self._endpoints.extended(names, slots)
        self.version += 1

    def limit(self, limits: Mapping[str, int]) -> None:
        """Give no more seats than these in each memory."""
        self._limits = limits
        self.version += 1

    def take(self, devices: Sequence[Device], *, whole: bool, memory: int) -> None:
        """A slot opens on these."""
        self._count(devices, 1, whole=whole, memory=memory)

    def give(self, devices: Sequence[Device], *, whole: bool, memory: int) -> None:
        """It is gone."""
        self._count(devices, -1, whole=whole, memory=memory)
        self.version += 1

    def promise(self, devices: Sequence[Device], before: int, after: int) -> None:
        """A slot holds another amount of memory."""
        for device in devices:
            self._promised[device] += after - before
        self.version += after < before

    def neighbours(self, devices: Sequence[Device]) -> int:
        """Seats on these that other slots have; of one slot on several, each counts."""
        return sum(self._in_use[device] for device in devices)

    def shared(self, devices: Sequence[Device]) -> bool:
        """Whether another slot takes from the same memory as the one on these: their GPUs, or the
        CPU of one machine."""
        if devices[0].kind == "cpu":
            return self._open[devices[0].host] > 1
        return any(self._in_use[device] > 1 for device in devices)

    def slots_of(self, host: str) -> int:
        """How many may be open on a machine at once; 0 where it is not here."""
        machine = self._machines.get(host)
        return machine.pool.slots if machine else 0

    def is_full(self, host: str) -> bool:
        """Whether a machine has no slot left, or is not here."""
        return host not in self._machines or self._load(host) >= 1.0

    @property
    def open_hosts(self) -> list[str]:
        """The machines with a slot left."""
        return [host for host in self._machines if not self.is_full(host)]

    def type_of(self, host: str) -> str:
        """What the devices of a machine are called."""
        return self._machines[host].pool.devices[0].type

    @property
    def full(self) -> bool:
        """Whether no machine and no endpoint has a slot left."""
        return not self.open_hosts and not self._endpoints.any_free(self._machines)

    def free_memory(self, devices: Sequence[Device], own: int) -> int:
        """Bytes that a slot which holds `own` may use of each of its GPUs; 0 on the CPU."""
        gpus = [device for device in devices if device.kind == "gpu"]
        return min((max(0, d.memory - self._promised[d] + own) for d in gpus), default=0)

    def room_for(
        self,
        needs: SlotNeeds,
        *,
        without: Collection[Device] = (),
        excluded: Collection[str] = (),
        only: str | None = None,
    ) -> tuple[Device, ...] | None:
        """The devices for one more slot, or None where there is no room.

        The machine with the largest part of its slots free gives them, and on it the devices with
        the most seats free; among equals the smallest that fit. No machine that is `excluded` gives
        any, nor does another than `only`.
        """
        if needs.endpoint:
            hosts = [
                host for host in self._machines if host not in excluded and only in (None, host)
            ]
            endpoint = self._endpoints.free(needs.endpoint, hosts, alone=needs.alone)
            return (endpoint,) if endpoint else None
        open_ = self.open_hosts if only is None else [] if self.is_full(only) else [only]
        for host in sorted((host for host in open_ if host not in excluded), key=self._load):
            if (candidates := self._group(self._machines[host], needs, without)) is not None:
                return candidates
        return None

    def earliest_free(
        self,
        needs: SlotNeeds,
        *,
        free: Free,
        without: Collection[Device] = (),
        suits: Callable[[str], bool] = lambda host: True,
    ) -> tuple[Device, ...] | None:
        """The devices of one suitable host that such a slot could have first."""
        candidates = []
        for machine in (one for host, one in self._machines.items() if suits(host)):
            fit = [d for d in machine.pool.devices if needs.fits(d) and d not in without]
            times = sorted((free(d), position) for position, d in enumerate(fit))[: needs.width]
            if len(times) == needs.width:
                candidates.append((times[-1][0], tuple(fit[position] for _, position in times)))
        return min(candidates, key=lambda one: one[0])[1] if candidates else None

    def _is_at_limit(self, memory: str) -> bool:
        return memory in self._limits and self._inside[memory] >= self._limits[memory]

    def _load(self, host: str) -> float:
        slots = self._machines[host].pool.slots
        return self._open[host] / slots if slots else 1.0

    def _count(self, devices: Sequence[Device], by: int, *, whole: bool, memory: int) -> None:
        host = devices[0].host
        if devices[0].kind == "endpoint":
            self._endpoints.count(devices[0], by, alone=whole)
            return
        self._open[host] += by
        self._inside.update(dict.fromkeys({memory_of(device) for device in devices}, by))
        for device in devices:
            self._in_use[device] += by
            self._whole[device] += by * whole
            self._promised[device] += by * memory
        if machine := self._machines.get(host):
            machine.changed(devices)

    def _group(
        self, machine: _Machine, needs: SlotNeeds, without: Collection[Device]
    ) -> tuple[Device, ...] | None:
        width = needs.width
        if needs.alone and machine.pool.devices[0].kind == "cpu":
            width = len(machine.pool.devices)

        def fits(device: Device) -> bool:
            return (
                not self._whole[device]
                and needs.fits(device)
                and (not device.memory or device.memory - self._promised[device] >= needs.promised)
                and device not in without
                and not (self._limits and self._is_at_limit(memory_of(device)))
            )

        return machine.emptiest(
            width, fits, 1 if width > 1 or needs.alone else machine.pool.slots_per_device
        )


class _Machine:
    """The devices of one machine, and how many seats of each are taken."""

    def __init__(self, pool: Pool, in_use: Mapping[Device, int]) -> None:
        self.pool, self._of = pool, in_use
        self._positions = {device: position for position, device in enumerate(pool.devices)}
        self._smallest_first = sorted(
            self._positions.values(), key=lambda p: pool.devices[p].memory
        )
        self._in_use = [in_use[device] for device in pool.devices]

    def changed(self, devices: Iterable[Device]) -> None:
        """Other seats of these are taken now."""
        for device in devices:
            if (position := self._positions.get(device)) is not None:
                self._in_use[position] = self._of[device]

    def emptiest(
        self, width: int, fits: Callable[[Device], bool], below: int
    ) -> tuple[Device, ...] | None:
        """So many that fit, those with the fewest seats taken first, then the smallest; of each
        fewer than `below` are taken. None where there are too few."""
        candidates: list[Device] = []
        for in_use in range(below):
            for position in self._smallest_first:
                if self._in_use[position] == in_use and fits(self.pool.devices[position]):
                    candidates.append(self.pool.devices[position])
                    if len(candidates) == width:
                        return tuple(candidates)
        return None
