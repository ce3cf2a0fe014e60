"""The host that each cell is planned for, and the hosts that may not have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from benchfleet.benchmarks.base import is_exclusive
from benchfleet.domain.cell import Cell
from benchfleet.domain.hardware import Hardware, hardware_problem
from benchfleet.domain.placement import ANYWHERE, Placement
from benchfleet.domain.resource import Need
from benchfleet.runner.resources.allocator import DeviceAllocator
from benchfleet.runner.resources.hosts import Hosts
from benchfleet.runner.resources.shapes import Pool, SlotShape, impossible


class PlacementResolver:
    """Says what slot a cell needs. Rules exclude hosts; the host of the plan is preferred while it
    can take the cell, or may still connect. After that any host may, as a last resort.

    An exclusive cell needs no slot of another shape where every slot has its memory alone: then it
    finds the model of the other cells loaded.
    """

    def __init__(
        self, hosts: Hosts, allocator: DeviceAllocator, pools: Callable[[], Sequence[Pool]]
    ) -> None:
        self._hosts, self._allocator, self._pools = hosts, allocator, pools
        self.placement = Placement()
        self._stolen: dict[str, str] = {}  # fingerprint → host that took the cell over
        self._can: dict[tuple[str, Need], bool] = {}
        self._hosts_without: dict[tuple[Hardware, ...], frozenset[str]] = {}
        self._shares_memory: bool | None = None  # whether slots do on any of the pools

    def use(self, placement: Placement) -> None:
        """Follow another plan and other rules."""
        self.placement = placement
        self._stolen.clear()
        self._can.clear()

    def refresh(self) -> bool:
        """See which hosts are here now; whether cells may need another slot than before."""
        before = self._can, self._hosts_without, self._shares_memory
        self._can = {key: self._can_host(*key) for key in self._can}
        self._hosts_without = {
            hardware: self._find_hosts_without(hardware) for hardware in self._hosts_without
        }
        if self._shares_memory is not None:
            self._shares_memory = self._is_memory_shared()
        return (self._can, self._hosts_without, self._shares_memory) != before

    def _is_memory_shared(self) -> bool:
        return any(pool.shares_memory for pool in self._pools())

    def _excluded(self, hardware: tuple[Hardware, ...]) -> frozenset[str]:
        """The hosts here that are none of this hardware."""
        if hardware not in self._hosts_without:
            self._hosts_without[hardware] = self._find_hosts_without(hardware)
        return self._hosts_without[hardware]

    def _find_hosts_without(self, hardware: tuple[Hardware, ...]) -> frozenset[str]:
        return frozenset(
            pool.host for pool in self._pools() if hardware_problem(hardware, pool.hardware)
        )

    def shape(self, fingerprint: str, cell: Cell) -> SlotShape:
        """The slot that a cell needs, by its declaration, the rules and the plan."""
        if self._shares_memory is None:
            self._shares_memory = self._is_memory_shared()
        alone = (self._shares_memory or bool(cell.need.endpoint)) and is_exclusive(cell)
        return self._placed(fingerprint, cell)._replace(alone=alone)

    def _placed(self, fingerprint: str, cell: Cell) -> SlotShape:
        width, endpoint = max(1, cell.need.gpus), cell.need.endpoint
        placement = self.placement
        excluded = self._excluded(cell.hardware) if cell.hardware else ANYWHERE
        if not placement.binds:
            return SlotShape(width, endpoint, excluded_hosts=excluded)
        excluded |= placement.barred(cell)
        host = self._stolen.get(fingerprint, placement.planned_hosts.get(fingerprint))
        if host is None:
            return SlotShape(width, endpoint, excluded_hosts=excluded)
        key = host, cell.need
        if (can := self._can.get(key)) is None:
            can = self._can[key] = self._can_host(*key)
        if can and host not in excluded:
            return SlotShape(width, endpoint, excluded_hosts=excluded, preferred_host=host)
        return SlotShape(width, endpoint, excluded_hosts=excluded, last_resort=True)

    def steal(self, fingerprint: str, host: str) -> None:
        """Prefer this host for the cell until there is another plan."""
        self._stolen[fingerprint] = host

    def is_stolen(self, fingerprint: str) -> bool:
        """Whether a host took the cell over from the one of the plan."""
        return fingerprint in self._stolen

    def is_pending_host(self, host: str) -> bool:
        """Whether the host may still connect."""
        return host in self._hosts.unmet

    def explanations(self, cells: Iterable[Cell]) -> Iterator[str]:
        """Why hosts of this run may not have some of these cells; and hosts without a report."""
        cells = list(cells)
        mine = {pool.host for pool in self._pools() if pool.devices} | self._hosts.expected
        for one in self.placement.kept_off(cells, mine):
            yield f"{one.host or 'this machine'} is given {one}"
        yield from self.placement.unreported(cells, mine)

    def _can_host(self, host: str, need: Need) -> bool:
        if self.is_pending_host(host):
            return True
        pools = [pool for pool in self._pools() if pool.host == host]
        return self._allocator.slots_of(host) > 0 and not impossible(need, pools)
