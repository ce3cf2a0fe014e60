"""Who sits where: what of every device is taken, and which devices the next slot gets."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from benchfleet.domain.resource import Device
from benchfleet.runner.place import Pool, memory_of

_STALE = 8  # entries of the heap for each machine, until it is made anew
Free = Callable[[Device], float]  # seconds until everything on it has ended


class Seats:
    """The devices of all machines, and the slots on them; finding a seat walks no slots.

    A machine gives no more slots than its pool says; a slot of one device takes one of its seats,
    a wider one and one that is to be alone take whole devices. What slots were said to need of a
    GPU's memory is never more than it has.
    """

    def __init__(self) -> None:
        self._pools: dict[str, Pool] = {}  # by host, in their order
        self._taken: Counter[Device] = Counter()  # seats
        self._whole: Counter[Device] = Counter()  # slots that share it with nobody
        self._promised: Counter[Device] = Counter()  # bytes
        self._open: Counter[str] = Counter()  # slots by host
        self._inside: Counter[str] = Counter()  # slots by the memory that they are in
        self._limits: Mapping[str, int] = {}  # slots that may be in a memory
        self._places: dict[str, int] = {}
        self._order: list[tuple[float, int, str]] = []  # a heap: the emptiest machine first

    def use(self, pools: Iterable[Pool]) -> None:
        """Give seats of these pools alone from now on."""
        self._pools = {pool.host: pool for pool in pools if pool.devices}
        self._places = {host: place for place, host in enumerate(self._pools)}
        self._sort()

    def limit(self, limits: Mapping[str, int]) -> None:
        """Give no more seats than these in each memory."""
        self._limits = limits

    def take(self, devices: Sequence[Device], *, whole: bool, memory: int) -> None:
        """A slot opens on these."""
        self._count(devices, 1, whole=whole, memory=memory)

    def give(self, devices: Sequence[Device], *, whole: bool, memory: int) -> None:
        """It is gone."""
        self._count(devices, -1, whole=whole, memory=memory)

    def promise(self, devices: Sequence[Device], before: int, after: int) -> None:
        """A slot holds another amount of memory."""
        for device in devices:
            self._promised[device] += after - before

    def neighbours(self, devices: Sequence[Device]) -> int:
        """Seats on these that other slots have; of one slot on several, each counts."""
        return sum(self._taken[device] for device in devices)

    def shared(self, devices: Sequence[Device]) -> bool:
        """Whether another slot takes from the same memory as the one on these: their GPUs, or the
        CPU of one machine."""
        if devices[0].kind == "cpu":
            return self._open[devices[0].host] > 1
        return any(self._taken[device] > 1 for device in devices)

    @property
    def full(self) -> bool:
        """Whether no machine has a slot left."""
        while self._order and self._order[0][0] != self._load(self._order[0][2]):
            heapq.heappop(self._order)  # there is a newer one
        return not self._order or self._order[0][0] >= 1.0

    def left_on(self, devices: Sequence[Device], own: int) -> int:
        """Bytes that a slot which holds `own` may use of each of its GPUs; 0 on the CPU."""
        gpus = [device for device in devices if device.kind == "gpu"]
        return min((max(0, d.memory - self._promised[d] + own) for d in gpus), default=0)

    def room_for(
        self,
        width: int,
        memory: int = 0,
        *,
        gpu: bool = False,
        alone: bool = False,
        need: int = 0,
        without: Collection[Device] = (),
    ) -> tuple[Device, ...] | None:
        """The devices for one more slot, or None where there is no room.

        The machine with the largest part of its slots free gives them, and on it the devices with
        the most seats free; among equals the smallest that fit. Each has `memory` bytes at least,
        `need` of them promised to nobody, and is a GPU where `gpu` says so.
        """
        looked_at: dict[str, tuple[float, int, str]] = {}
        found = None
        while self._order and self._order[0][0] < 1.0 and found is None:
            entry = heapq.heappop(self._order)
            load, _, host = entry
            if load == self._load(host) and host not in looked_at:  # else there is a newer one
                looked_at[host] = entry
                pool = self._pools[host]
                found = self._group(pool, width, memory, gpu, alone, need, without)
        for entry in looked_at.values():
            heapq.heappush(self._order, entry)
        return found

    def soonest(
        self,
        width: int,
        memory: int,
        *,
        gpu: bool,
        free: Free,
        without: Collection[Device] = (),
    ) -> tuple[Device, ...] | None:
        """The devices of one machine that such a slot could have first, whoever is on them now."""
        found = []
        for pool in self._pools.values():
            fit = [d for d in pool.devices if _fits(d, memory, gpu) and d not in without]
            times = sorted((free(d), place) for place, d in enumerate(fit))[:width]
            if len(times) == width:
                found.append((times[-1][0], tuple(fit[place] for _, place in times)))
        return min(found, key=lambda one: one[0])[1] if found else None

    def _is_crowded(self, memory: str) -> bool:
        return memory in self._limits and self._inside[memory] >= self._limits[memory]

    def _load(self, host: str) -> float:
        return self._open[host] / self._pools[host].slots if self._pools[host].slots else 1.0

    def _sort(self) -> None:
        self._order = [(self._load(host), place, host) for host, place in self._places.items()]
        heapq.heapify(self._order)

    def _count(self, devices: Sequence[Device], by: int, *, whole: bool, memory: int) -> None:
        host = devices[0].host
        self._open[host] += by
        self._inside.update(dict.fromkeys({memory_of(device) for device in devices}, by))
        for device in devices:
            self._taken[device] += by
            self._whole[device] += by * whole
            self._promised[device] += by * memory
        if host in self._pools:
            heapq.heappush(self._order, (self._load(host), self._places[host], host))
            if len(self._order) > _STALE * len(self._pools):
                self._sort()

    def _group(
        self,
        pool: Pool,
        width: int,
        memory: int,
        gpu: bool,
        alone: bool,
        need: int,
        without: Collection[Device],
    ) -> tuple[Device, ...] | None:
        if alone and pool.devices[0].kind == "cpu":
            width = len(pool.devices)
        whole = width > 1 or alone
        fit = [
            device
            for device in pool.devices
            if not self._whole[device]
            and (not self._taken[device] if whole else self._taken[device] < pool.seats)
            and _fits(device, memory, gpu)
            and (not device.memory or device.memory - self._promised[device] >= need)
            and device not in without
            and not self._is_crowded(memory_of(device))
        ]
        if len(fit) < width:
            return None
        order = sorted(fit, key=lambda device: (self._taken[device], device.memory))
        return tuple(order[:width])


def _fits(device: Device, memory: int, gpu: bool) -> bool:
    return device.memory >= memory and (device.kind == "gpu" or not gpu)
