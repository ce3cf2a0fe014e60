"""Giving idle slots cells, and opening and closing slots as the waiting cells need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchfleet.domain.attempt import Claim, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Device
from benchfleet.ledger.base import Ledger
from benchfleet.runner.hosts import Hosts
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.place import Pool, impossible, without
from benchfleet.runner.slots import Slot, Slots

MAX_BAD_STARTS = 3  # slots in a row that never said hello before their devices are left out


class Filler:
    """Claims for the slots of one runner; what cannot run on its devices is named, not waited for.

    Machines may come and go meanwhile. Cells are served by width (devices that one needs), the
    widest first, since they need whole devices. A slot that finds nothing to do while a cell waits
    for other devices is closed.
    """

    def __init__(
        self,
        *,
        runner: RunnerId,
        ledger: Ledger,
        keeper: LeaseKeeper,
        slots: Slots,
        pools: Sequence[Pool],
        hosts: Hosts,
        cells: Sequence[Cell],
        begin: Callable[[Slot, Claim], None],
    ) -> None:
        self._runner, self._ledger, self._keeper = runner, ledger, keeper
        self._slots, self._hosts, self._begin = slots, hosts, begin
        self._pools = list(pools)
        self._cells = {str(cell.fingerprint): cell for cell in cells}
        self._bad_starts: dict[tuple[Device, ...], int] = {}
        self.sort_out()

    def sort_out(self) -> None:
        """Which cells the machines that are here can take, by width."""
        self._slots.use(self._pools)
        reasons = {f: impossible(cell, self._pools) for f, cell in self._cells.items()}
        possible = frozenset(f for f, why in reasons.items() if not why)
        expecting = self._hosts.expecting  # whatever cannot run now, may run there
        self.able = frozenset(reasons) if expecting else possible
        self.impossible = [
            (self._cells[f], why) for f, why in reasons.items() if why and not expecting
        ]
        widths = sorted({self._width(f) for f in possible}, reverse=True)
        self._among = {
            width: frozenset(f for f in possible if self._width(f) == width) for width in widths
        }

    def add(self, pool: Pool) -> None:
        """A machine can be used from now on."""
        self.remove(pool.host)
        self._pools.append(pool)
        self.sort_out()

    def remove(self, host: str) -> None:
        """A machine cannot be used any more."""
        self._pools = [pool for pool in self._pools if pool.host != host]
        self.sort_out()

    def _width(self, fingerprint: str) -> int:
        return max(1, self._cells[fingerprint].need.gpus)

    def fill(self) -> list[Slot]:
        """Give every idle slot a cell, and open slots while there is room and work; the slots
        that were opened."""
        opened: list[Slot] = []
        lacking = False
        for width, among in self._among.items():
            for slot in self._slots:
                if slot.idle and slot.width == width:
                    self._claim_for(slot, among)
            lacking |= self._open_for(width, among, opened)
        if lacking:
            for slot in self._slots:
                if slot.idle:
                    self._slots.retire(slot)
        return opened

    def _claim_for(self, slot: Slot, among: frozenset[str]) -> None:
        for claim in self._ledger.claim(self._runner, slot.offer(among), 1):
            self._slots.progress.move("pending", "running")
            if claim.cell.model.python == slot.spec.python:
                self._begin(slot, claim)
            else:  # it wants another interpreter: a new slot on these devices takes it
                self._keeper.hold(claim.lease)
                slot.reserved = claim
                self._slots.retire(slot)

    def _open_for(self, width: int, among: frozenset[str], opened: list[Slot]) -> bool:
        """Open slots for the cells of one width that wait; whether one waits for devices that
        are taken."""
        idle = any(slot.idle for slot in self._slots)
        if not idle and self._slots.room_for(width) is None:
            return False
        records = self._ledger.cells(states=["pending"], among=among)
        needs = [self._cells[r.fingerprint].need.vram for r in records if r.ready_in <= 0]
        free = sorted(
            (slot for slot in self._slots if slot.width == width and slot.will_claim),
            key=lambda slot: slot.memory,
        )
        for need in sorted(needs, reverse=True):
            fit = next((slot for slot in free if slot.memory >= need), None)
            if fit is not None:
                free.remove(fit)
                continue
            devices = self._slots.room_for(width, need)
            if devices is None:
                return True
            opened.append(self._slots.open(devices, width))
        return False

    def started_well(self, slot: Slot) -> None:
        self._bad_starts.pop(slot.spec.devices, None)

    def started_badly(self, slot: Slot) -> bool:
        """Count a slot that never said hello; True when its devices are now left out."""
        devices = slot.spec.devices
        self._bad_starts[devices] = self._bad_starts.get(devices, 0) + 1
        if self._bad_starts[devices] < MAX_BAD_STARTS:
            return False
        self._pools = [
            without(pool, devices) if pool.host == devices[0].host else pool for pool in self._pools
        ]
        self.sort_out()
        return True
