"""Who sits where: what of every device is taken, and which devices the next slot gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from benchfleet.domain.resource import Device
from benchfleet.runner.resources.shapes import Pool, memory_of

Free = Callable[[Device], float]  # seconds until everything on it has ended


class SlotNeeds(NamedTuple):
    """What one slot is to have."""

    width: int = 1  # devices
    memory: int = 0  # bytes that each of them has at least
    gpu: bool = False  # whether each must be a GPU
    alone: bool = False  # no other slot is to be in the memory that it has
    promised: int = 0  # bytes of each that are promised to it, and must be promised to nobody else

    def fits(self, device: Device) -> bool:
        """Whether a device is such a one, whoever is on it."""
        return device.memory >= self.memory and (device.kind == "gpu" or not self.gpu)


class DeviceAllocator:
    """The devices of all machines, and the slots on them.

    A machine gives no more slots than its pool says; a slot of one device takes one of its seats,
    a wider one and one that is to be alone take whole devices. What slots were said to need of a
    GPU's memory is never more than it has.
    """

    def __init__(self) -> None:
        self._machines: dict[str, _Machine] = {}  # by host, in their order
        self.version = 0  # grows whenever one may be found that was not there before
        self._taken: Counter[Device] = Counter()  # seats
        self._whole: Counter[Device] = Counter()  # slots that share it with nobody
        self._promised: Counter[Device] = Counter()  # bytes
        self._open: Counter[str] = Counter()  # slots by host
        self._inside: Counter[str] = Counter()  # slots by the memory that they are in
        self._limits: Mapping[str, int] = {}  # slots that may be in a memory

    def use(self, pools: Iterable[Pool]) -> None:
        """Give seats of these pools alone from now on."""
        known, self._machines = self._machines, {}
        for pool in (pool for pool in pools if pool.devices):
            machine = known.get(pool.host)
            same = machine is not None and machine.pool is pool
            self._machines[pool.host] = machine if machine and same else _Machine(pool, self._taken)
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
        return sum(self._taken[device] for device in devices)

    def shared(self, devices: Sequence[Device]) -> bool:
        """Whether another slot takes from the same memory as the one on these: their GPUs, or the
        CPU of one machine."""
        if devices[0].kind == "cpu":
            return self._open[devices[0].host] > 1
        return any(self._taken[device] > 1 for device in devices)

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
        """Whether no machine has a slot left."""
        return not self.open_hosts

    def left_on(self, devices: Sequence[Device], own: int) -> int:
        """Bytes that a slot which holds `own` may use of each of its GPUs; 0 on the CPU."""
        gpus = [device for device in devices if device.kind == "gpu"]
        return min((max(0, d.memory - self._promised[d] + own) for d in gpus), default=0)

    def room_for(
        self,
        needs: SlotNeeds,
        *,
        without: Collection[Device] = (),
        barred: Collection[str] = (),
        only: str | None = None,
    ) -> tuple[Device, ...] | None:
        """The devices for one more slot, or None where there is no room.

        The machine with the largest part of its slots free gives them, and on it the devices with
        the most seats free; among equals the smallest that fit. No machine that is `barred` gives
        any, nor does another than `only`.
        """
        open_ = self.open_hosts if only is None else [] if self.is_full(only) else [only]
        for host in sorted((host for host in open_ if host not in barred), key=self._load):
            if (found := self._group(self._machines[host], needs, without)) is not None:
                return found
        return None

    def soonest(
        self,
        needs: SlotNeeds,
        *,
        free: Free,
        without: Collection[Device] = (),
        suits: Callable[[str], bool] = lambda host: True,
    ) -> tuple[Device, ...] | None:
        """The devices of one machine that such a slot could have first, whoever is on them now; of
        one that suits."""
        found = []
        for machine in (one for host, one in self._machines.items() if suits(host)):
            fit = [d for d in machine.pool.devices if needs.fits(d) and d not in without]
            times = sorted((free(d), place) for place, d in enumerate(fit))[: needs.width]
            if len(times) == needs.width:
                found.append((times[-1][0], tuple(fit[place] for _, place in times)))
        return min(found, key=lambda one: one[0])[1] if found else None

    def _is_crowded(self, memory: str) -> bool:
        return memory in self._limits and self._inside[memory] >= self._limits[memory]

    def _load(self, host: str) -> float:
        slots = self._machines[host].pool.slots
        return self._open[host] / slots if slots else 1.0

    def _count(self, devices: Sequence[Device], by: int, *, whole: bool, memory: int) -> None:
        host = devices[0].host
        self._open[host] += by
        self._inside.update(dict.fromkeys({memory_of(device) for device in devices}, by))
        for device in devices:
            self._taken[device] += by
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
                and not (self._limits and self._is_crowded(memory_of(device)))
            )

        return machine.emptiest(width, fits, 1 if width > 1 or needs.alone else machine.pool.seats)


class _Machine:
    """The devices of one machine, and how many seats of each are taken."""

    def __init__(self, pool: Pool, taken: Mapping[Device, int]) -> None:
        self.pool, self._of = pool, taken
        self._places = {device: place for place, device in enumerate(pool.devices)}
        self._smallest_first = sorted(self._places.values(), key=lambda p: pool.devices[p].memory)
        self._taken = [taken[device] for device in pool.devices]

    def changed(self, devices: Iterable[Device]) -> None:
        """Other seats of these are taken now."""
        for device in devices:
            if (place := self._places.get(device)) is not None:
                self._taken[place] = self._of[device]

    def emptiest(
        self, width: int, fits: Callable[[Device], bool], below: int
    ) -> tuple[Device, ...] | None:
        """So many that fit, those with the fewest seats taken first, then the smallest; of each
        fewer than `below` are taken. None where there are too few."""
        found: list[Device] = []
        for taken in range(below):
            for place in self._smallest_first:
                if self._taken[place] == taken and fits(self.pool.devices[place]):
                    found.append(self.pool.devices[place])
                    if len(found) == width:
                        return tuple(found)
        return None
