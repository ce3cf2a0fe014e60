"""The devices that one runner may use as machines come and go, and the cells that they can take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchfleet.domain.cell import Cell
from benchfleet.domain.placement import Placement
from benchfleet.domain.resource import Device, Need
from benchfleet.runner.resources.hosts import Hosts
from benchfleet.runner.resources.quarantine import Quarantine
from benchfleet.runner.resources.shapes import NO_DEVICE, Pool, impossible, with_device, without
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots

# what a cell needs, and the machines that may not have it
Requirement = tuple[Need, frozenset[str]]
MAX_BAD_STARTS = 3  # slots in a row that never said hello before their devices are left out


class Devices:
    """Which devices slots may be opened on, why not on the others, and which cells they can take.

    Machines may come and go meanwhile; `changed` is called whenever what they can take may be
    something else.
    """

    def __init__(
        self,
        *,
        slots: Slots,
        hosts: Hosts,
        pools: Sequence[Pool],
        cells: Mapping[str, Cell],
        placement: Callable[[], Placement],
        changed: Callable[[], None],
        endpoint_slots: int,
    ) -> None:
        self._slots, self._hosts, self._cells, self._placement = slots, hosts, cells, placement
        self._changed, self._endpoint_slots = changed, endpoint_slots
        self._pools = list(pools)
        self._origins = {pool.host: pool for pool in pools}  # as each machine came
        self._grown: list[Device] = []  # what was added to them since
        self._by_need: dict[Requirement, list[str]] = {}
        self._no_time: set[str] = set()  # cells that would take too long for this runner
        self._held_back: frozenset[str] = frozenset()  # cells that are not to be begun now
        self._sort(cells)
        self._bad_starts: dict[tuple[Device, ...], int] = {}
        self._possible: frozenset[Requirement] | None = None
        self._coming = frozenset[Requirement]()  # that a machine which is away may take
        self._can: dict[Requirement, bool] = {}  # whether a machine here can take such cells
        self.able: frozenset[str] = frozenset()  # the cells that a machine may take
        self._expected = self._unmet = frozenset[str]()
        self.quarantine = Quarantine()  # what is not to be used now
        self._removed: set[Device] = set()  # of these, what somebody removed
        self.sort_out()

    def _sort(self, cells: Mapping[str, Cell]) -> None:
        barred = self._placement().barred
        names = {cell.need.endpoint for cell in cells.values() if cell.need.endpoint}
        self._slots.allocator.use_endpoints(names, self._endpoint_slots)
        for fingerprint, cell in cells.items():
            self._by_need.setdefault((cell.need, barred(cell)), []).append(fingerprint)

    def add_cells(self, cells: Mapping[str, Cell]) -> None:
        """Be about these cells too, which are new."""
        self._sort(cells)
        self._possible = None  # they may ask for what nobody asked for yet
        self.sort_out()

    def apply_placement(self) -> None:
        """Machines may have other cells than before."""
        self._by_need.clear()
        self._possible = None
        self._sort(self._cells)
        self.sort_out()

    def drop_cells(self, cells: Sequence[str]) -> None:
        """There is no time for these cells."""
        self._no_time.update(cells)
        self.able = self.able.difference(cells)

    def hold_back(self, cells: frozenset[str]) -> None:
        """Hold back exactly these cells."""
        if cells != self._held_back:
            self._held_back, self._possible = cells, None
            self.sort_out()

    def sort_out(self) -> None:
        """See which cells the machines that are here can take."""
        self._pools = self.quarantine.whole(self._pools)
        self._slots.use(self.quarantine.open_pools(self._pools))
        self._expected = self._hosts.expected
        coming = frozenset(one for one in self._by_need if self._may_come(one))
        self._can.clear()
        possible = frozenset(
            one for one in self._by_need if not self._is_impossible(one, self._pools)
        )
        if self._possible is None or (possible, coming) != (self._possible, self._coming):
            self._possible, self._coming = possible, coming
            local_cells = [f for one in possible for f in self._by_need[one]]
            remote_cells = [f for one in coming for f in self._by_need[one]]
            able = frozenset((*local_cells, *remote_cells))
            self.able = able.difference(self._no_time, self._held_back)
            # a machine which is away may take these
            self.for_hosts = self.able.difference(local_cells)
        self._unmet = self._hosts.unmet
        self._changed()

    def _may_come(self, required: Requirement) -> bool:
        """Whether a machine that is away may take such cells."""
        need, barred = required
        hosts = self._hosts.expected - barred
        return any(not self._hosts.lacks(host, need) for host in hosts)

    def can_take(self, need: Need, barred: frozenset[str]) -> bool:
        """Whether a machine here has what such cells ask for, and may have them."""
        required = need, barred
        if required not in self._can:
            self._can[required] = not self._is_impossible(required, self._pools)
        return self._can[required]

    @property
    def impossible(self) -> list[tuple[Cell, str]]:
        """The cells that no machine will take, and why."""
        expected, placement = self._hosts.expected, self._placement()
        reasons: dict[tuple[Need, int], str] = {}
        impossible_cells = []
        for required, names in self._by_need.items():
            if self._may_come(required):
                continue
            for cell in (self._cells[name] for name in names):
                barred = placement.why_not(cell)
                key = required[0], id(barred)
                if key not in reasons:
                    why = impossible(required[0], self._pools, barred)
                    reasons[key] = why = self._no_device() if why == NO_DEVICE else why
                    if why and expected:  # none of which may have it
                        local_cells = [why] if self._pools else []
                        away = (
                            f"{host}: {barred.get(host) or self._hosts.lacks(host, cell.need)}"
                            for host in sorted(expected)
                        )
                        reasons[key] = "; ".join((*local_cells, *away))
                if reasons[key]:
                    impossible_cells.append((cell, reasons[key]))
        return impossible_cells

    def _no_device(self) -> str:
        """That no device is left, and how those that somebody removed come back."""
        if not self._removed:
            return NO_DEVICE
        names = sorted(device.label for device in self._removed)
        were, them = ("was", "it") if len(names) == 1 else ("were", "them")
        back = f"`benchfleet slots add {' '.join(names)}` brings {them} back"
        return f"{NO_DEVICE}: {', '.join(names)} {were} removed; {back}"

    def _is_impossible(self, required: Requirement, pools: Sequence[Pool]) -> bool:
        need, barred = required
        return bool(impossible(need, [pool for pool in pools if pool.host not in barred]))

    def is_rented(self, host: str) -> bool:
        """Whether a machine is a rented one."""
        pool = self._origins.get(host)
        return pool is not None and pool.rented is not None

    @property
    def pools(self) -> Sequence[Pool]:
        """The machines that are here, with all that may be used some day."""
        return self._pools

    @property
    def known_devices(self) -> Sequence[Device]:
        """Every device of machines that came, whatever became of it."""
        came = [device for pool in self._origins.values() for device in pool.devices]
        return [*came, *(device for device in self._grown if device not in came)]

    # Machines come and go, and people add devices and take them away

    def add(self, pool: Pool) -> None:
        """A machine can be used from now on."""
        others = [other for other in self._pools if other.host != pool.host]
        self._origins[pool.host] = pool
        self._pools = self.quarantine.whole([*others, pool])
        for device in self._grown:
            if device.host == pool.host:
                self._pools = with_device(self._pools, pool, device)
        self.sort_out()

    def remove(self, host: str, *, for_good: bool = False) -> None:
        """A machine cannot be used now, or never again under this name."""
        if for_good:
            self._origins.pop(host, None)
            self._grown = [device for device in self._grown if device.host != host]
        remaining = [pool for pool in self._pools if pool.host != host]
        before, now = (self._expected, self._unmet), (self._hosts.expected, self._hosts.unmet)
        if len(remaining) < len(self._pools) or now != before:
            self._pools = remaining
            self.sort_out()

    def grow(self, device: Device) -> None:
        """One more device can be used, or one that was let go or left out can again."""
        self.quarantine.admit(device)
        self._removed.discard(device)
        self._bad_starts = {d: n for d, n in self._bad_starts.items() if device not in d}
        if device not in self._origins[device.host].devices and device not in self._grown:
            self._grown.append(device)  # nor is it forgotten where its machine comes back
        if not any(device in pool.devices for pool in self._pools):
            self._pools = with_device(self._pools, self._origins[device.host], device)
        for slot in self._slots.on([device]):
            slot.draining = any(self.quarantine.why(one) for one in slot.spec.devices)
            self._slots.reindex(slot)
        self.sort_out()

    def withdraw(self, device: Device, *, for_good: bool) -> None:
        """Stop using a device: slots on it end when they have nothing at hand. Cells wait for it
        unless it is `for_good`."""
        if for_good:
            self._removed.add(device)
            self._exclude([device])
        else:
            self.quarantine.drain([device])
            self._use_open()
            self._end_slots([device])

    def waits_for_drained(self) -> frozenset[str]:
        """The cells that nothing but drained devices could take."""
        drained = self.quarantine.drained
        remaining = [without(pool, tuple(drained & set(pool.devices))) for pool in self._pools]
        unplaceable = [one for one in self._by_need if self._is_impossible(one, remaining)]
        return self.able.intersection(
            f for required in unplaceable for f in self._by_need[required]
        )

    # What slots on them tell

    def started_well(self, slot: Slot) -> None:
        self._bad_starts.pop(slot.spec.devices, None)

    def started_badly(self, slot: Slot) -> bool:
        """Count a slot that never said hello; True when its devices are now left out."""
        devices = slot.spec.devices
        self._bad_starts[devices] = self._bad_starts.get(devices, 0) + 1
        if self._bad_starts[devices] < MAX_BAD_STARTS:
            return False
        self._exclude(devices)
        return True

    def failed_trial(self, slot: Slot) -> None:
        """A model did not run in it: its devices are left out."""
        self._exclude(slot.spec.devices)

    def worked(self, slot: Slot) -> None:
        """A cell ended well in it."""
        self.quarantine.works(slot.spec.devices)

    def faulted(self, slot: Slot, cell: Cell) -> bool:
        """A GPU failed under this cell; True when the slot's devices are now left out."""
        if not self.quarantine.faulted(slot.spec.devices, str(cell.fingerprint)):
            return False
        self._exclude(slot.spec.devices)
        return True

    def set_aside(
        self, slot: Slot, now: float, *, gpus: Sequence[int] = (), failed: bool = False
    ) -> bool:
        """Leave devices of a slot alone for a while, only these GPUs if any are given; whether that
        is news. `failed`: see `Quarantine.set_aside`."""
        devices = [device for device in slot.spec.devices if device.index in gpus]
        news = self.quarantine.set_aside(devices or slot.spec.devices, now, failed=failed)
        self._use_open()
        return news

    def take_back(self, now: float) -> None:
        """Look again at what was set aside long enough ago."""
        if self.quarantine.take_back(now):
            self._use_open()

    def _use_open(self) -> None:
        """Open slots on what is not set aside or drained alone."""
        self._slots.use(self.quarantine.open_pools(self._pools))
        self._changed()

    def _exclude(self, devices: Sequence[Device]) -> None:
        self.quarantine.exclude(devices)
        self.sort_out()
        self._end_slots(devices)

    def _end_slots(self, devices: Sequence[Device]) -> None:
        for slot in self._slots.on(devices):
            if slot.idle:
                self._slots.retire(slot)
            elif slot.will_claim:  # it only starts
                self._slots.kill(slot)
            else:  # it ends what it runs or was opened for, and takes no other
                slot.draining = True
                self._slots.reindex(slot)
