"""Giving idle slots cells, and opening and closing slots as the waiting cells need them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from benchfleet.domain.attempt import Advice, Claim, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Choice, Device
from benchfleet.ledger.base import Ledger
from benchfleet.runner.attempts import Attempt
from benchfleet.runner.fences import Fences
from benchfleet.runner.hosts import Hosts
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.place import (
    Pool,
    Shape,
    impossible,
    in_one_memory,
    larger_than,
    with_device,
    without,
)
from benchfleet.runner.retry import Memory
from benchfleet.runner.slots import Slot, Slots

MAX_BAD_STARTS = 3  # slots in a row that never said hello before their devices are left out


class Filler:
    """Claims for the slots of one runner; what cannot run on its devices is named, not waited for.

    Machines may come and go meanwhile. Cells are served by the shape of the slot that they need,
    the widest first, since they need whole devices. A slot that finds nothing to do while a cell
    waits for other devices is closed. Where memory ran out under a cell the ledger advises another
    slot for it, also after an attempt of another runner; what no machine here has of that is done
    without, after all else.
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
        self._origins = {pool.host: pool for pool in pools}  # as each machine came
        self._grown: list[Device] = []  # what was added to them since
        self._cells = {str(cell.fingerprint): cell for cell in cells}
        self._bad_starts: dict[tuple[Device, ...], int] = {}
        self._fences = Fences()
        self._advice: dict[str, Advice] = {}  # that asks for another slot than its cell does
        self.sort_out()

    def sort_out(self) -> None:
        """Which cells the machines that are here can take, by the shape of their slots."""
        self._pools = self._fences.whole(self._pools)
        self._slots.use(self._fences.open_pools(self._pools))
        reasons = {f: impossible(cell, self._pools) for f, cell in self._cells.items()}
        possible = frozenset(f for f, why in reasons.items() if not why)
        expecting = self._hosts.expecting  # whatever cannot run now, may run there
        self.able = frozenset(reasons) if expecting else possible
        self.for_hosts = self.able - possible  # that a machine which is away may take
        self.impossible = [
            (self._cells[f], why) for f, why in reasons.items() if why and not expecting
        ]
        by_width: dict[int, set[str]] = {}
        for fingerprint in possible:
            by_width.setdefault(self._width(fingerprint), set()).add(fingerprint)
        self._by_width = {width: frozenset(found) for width, found in by_width.items()}
        self._among: dict[Shape, Choice] | None = None

    def add(self, pool: Pool) -> None:
        """A machine can be used from now on."""
        self.remove(pool.host)
        self._origins[pool.host] = pool
        self._pools = self._fences.whole([*self._pools, pool])
        for device in self._grown:
            if device.host == pool.host:
                self._pools = with_device(self._pools, pool, device)
        self.sort_out()

    def grow(self, device: Device) -> None:
        """One more device can be used, or one that was let go or left out can again."""
        self._fences.admit(device)
        self._bad_starts = {d: n for d, n in self._bad_starts.items() if device not in d}
        if device not in self._origins[device.host].devices and device not in self._grown:
            self._grown.append(device)  # nor is it forgotten where its machine comes back
        if not any(device in pool.devices for pool in self._pools):
            self._pools = with_device(self._pools, self._origins[device.host], device)
        for slot in self._slots:
            if device in slot.spec.devices:
                slot.left_out = any(self._fences.why(one) for one in slot.spec.devices)
        self.sort_out()

    def let_go(self, device: Device, *, for_good: bool) -> None:
        """Use a device no more: slots on it end when they have nothing at hand. Cells wait for it
        unless it is `for_good`."""
        if for_good:
            self._leave_out([device])
        else:
            self._fences.drain([device])
            self._slots.use(self._fences.open_pools(self._pools))
            self._end_slots([device])

    def waits_for_drained(self) -> frozenset[str]:
        """The cells that nothing but drained devices could take."""
        drained = self._fences.drained
        left = [without(pool, tuple(drained.intersection(pool.devices))) for pool in self._pools]
        return frozenset(f for f in self.able if impossible(self._cells[f], left))

    @property
    def pools(self) -> Sequence[Pool]:
        """The machines that are here, with all that may be used some day."""
        return self._pools

    @property
    def devices(self) -> Sequence[Device]:
        """Every device of machines that came, whatever became of it."""
        came = [device for pool in self._origins.values() for device in pool.devices]
        return [*came, *(device for device in self._grown if device not in came)]

    @property
    def fences(self) -> Fences:
        """What is not to be used now."""
        return self._fences

    def remove(self, host: str) -> None:
        """A machine cannot be used any more."""
        self._pools = [pool for pool in self._pools if pool.host != host]
        self.sort_out()

    def advise(self, fingerprint: str, advice: Advice) -> bool:
        """Heed what the ledger advises for a cell; whether its slot is to be another now."""
        known = self._advice.get(fingerprint, Advice())
        if (known.alone, known.vram) == (advice.alone, advice.vram):
            return False
        self._advice[fingerprint] = advice
        self._among = None
        return True

    def memory_of(self, attempt: Attempt) -> Memory:
        """What of memory an attempt has now, and could have."""
        devices = attempt.spec.devices
        return Memory(
            batch_size=attempt.claim.batch_size,
            shared=any(
                slot.id != attempt.spec.slot and in_one_memory(slot.spec.devices, devices)
                for slot in self._slots
            ),
            larger=larger_than(devices, self._pools),
        )

    def _shapes(self) -> dict[Shape, Choice]:
        """The cells that can be taken, by the shape of their slots, in the order of service."""
        if self._among is None:
            found: dict[Shape, frozenset[str]] = {}
            for width, cells in self._by_width.items():
                moved: dict[Shape, set[str]] = {}
                for fingerprint in cells.intersection(self._advice):
                    if (shape := self._shape(fingerprint)) != Shape(width):
                        moved.setdefault(shape, set()).add(fingerprint)
                found |= {shape: frozenset(those) for shape, those in moved.items()}
                if left := cells.difference(*moved.values()) if moved else cells:
                    found[Shape(width)] = left
            order = sorted(found, key=lambda s: (s.late, -s.width, not s.alone, -s.memory))
            self._among = {shape: Choice(found[shape]) for shape in order}
        return self._among

    def _width(self, fingerprint: str) -> int:
        return max(1, self._cells[fingerprint].need.gpus)

    def _shape(self, fingerprint: str) -> Shape:
        """What the cell's slot is to be, as far as the machines that are here have it."""
        width, advice = self._width(fingerprint), self._advice.get(fingerprint, Advice())
        alone, floor = advice.alone and width == 1, advice.vram
        if not floor:
            return Shape(width, alone)
        if any(sum(d.memory >= floor for d in pool.devices) >= width for pool in self._pools):
            return Shape(width, alone, floor)
        return Shape(width, alone, late=True)

    def fill(self) -> list[Slot]:
        """Give every idle slot a cell, and open slots while there is room and work; the slots
        that were opened."""
        opened: list[Slot] = []
        while not self._served(opened):
            continue  # from the beginning: a cell is to have another slot than was known
        return opened

    def _served(self, opened: list[Slot]) -> bool:
        """Serve all shapes in their order; False where that order was found to be another."""
        lacking = False
        for shape, among in self._shapes().items():
            for slot in self._slots:
                if slot.idle and slot.takes(shape) and not self._claim_for(slot, among):
                    return False
            lacking |= self._open_for(shape, among, opened)
        if lacking:
            for slot in self._slots:
                if slot.idle:
                    self._slots.retire(slot)
        return True

    def _claim_for(self, slot: Slot, among: Choice) -> bool:
        """Claim for an idle slot; False where the claim told that its cell is to have another."""
        for claim in self._ledger.claim(self._runner, slot.offer(among), 1):
            if self.advise(claim.lease.fingerprint, claim.advice):
                shape = self._shape(claim.lease.fingerprint)
                fits = slot.memory >= shape.memory and slot.alone >= shape.alone
                if shape.late or not fits:
                    self._ledger.release([claim.lease], f"it is to be run {claim.advice}")
                    return False
            self._slots.progress.move("pending", "running")
            if claim.cell.model.python == slot.spec.python:
                self._begin(slot, claim)
            else:  # it wants another interpreter: a new slot on these devices takes it
                self._keeper.hold(claim.lease)
                slot.reserved = claim
                self._slots.retire(slot)
        return True

    def _open_for(self, shape: Shape, among: Choice, opened: list[Slot]) -> bool:
        """Open slots for the cells of one shape that wait; whether one waits for devices that
        are taken."""
        idle = any(slot.idle for slot in self._slots)
        if not idle and self._slots.room_for(shape) is None:
            return False
        records = self._ledger.cells(states=["pending"], among=among)
        needs = Counter(self._need(r.fingerprint) for r in records if r.ready_in <= 0)
        free = sorted(
            (slot for slot in self._slots if slot.takes(shape) and slot.will_claim),
            key=lambda slot: slot.memory,
        )
        lacking = False
        for (gpu, needed), count in sorted(needs.items(), reverse=True):
            memory = max(needed, shape.memory)
            for _ in range(count):
                fit = next((slot for slot in free if slot.suits(memory, gpu=gpu)), None)
                if fit is not None:
                    free.remove(fit)
                elif devices := self._slots.room_for(shape, memory, gpu=gpu):
                    width, alone = shape.width, shape.alone
                    opened.append(self._slots.open(devices, width, alone=alone, memory=memory))
                else:
                    lacking = True
                    break
        return lacking

    def _need(self, fingerprint: str) -> tuple[bool, int]:
        """Whether the cell needs a GPU, and how much memory on it."""
        need = self._cells[fingerprint].need
        return need.gpus > 0, need.vram

    def started_well(self, slot: Slot) -> None:
        self._bad_starts.pop(slot.spec.devices, None)

    def worked(self, slot: Slot) -> None:
        """A cell ended well in it."""
        self._fences.works(slot.spec.devices)

    def faulted(self, slot: Slot, cell: Cell) -> bool:
        """A GPU failed under this cell; True when the slot's devices are now left out."""
        if not self._fences.faulted(slot.spec.devices, str(cell.fingerprint)):
            return False
        self._leave_out(slot.spec.devices)
        return True

    def set_aside(self, slot: Slot, gpus: Sequence[int], now: float) -> bool:
        """Leave these GPUs of a slot to others for a while; whether that is news."""
        devices = [device for device in slot.spec.devices if device.index in gpus]
        news = self._fences.set_aside(devices or slot.spec.devices, now)
        self._slots.use(self._fences.open_pools(self._pools))
        return news

    def take_back(self, now: float) -> None:
        """Look again at what was set aside long enough ago."""
        if self._fences.take_back(now):
            self._slots.use(self._fences.open_pools(self._pools))

    def started_badly(self, slot: Slot) -> bool:
        """Count a slot that never said hello; True when its devices are now left out."""
        devices = slot.spec.devices
        self._bad_starts[devices] = self._bad_starts.get(devices, 0) + 1
        if self._bad_starts[devices] < MAX_BAD_STARTS:
            return False
        self._leave_out(devices)
        return True

    def failed_trial(self, slot: Slot) -> None:
        """A model did not run in it: its devices are left out."""
        self._leave_out(slot.spec.devices)

    def _leave_out(self, devices: Sequence[Device]) -> None:
        self._fences.leave_out(devices)
        self.sort_out()
        self._end_slots(devices)

    def _end_slots(self, devices: Sequence[Device]) -> None:
        for slot in self._slots:
            if set(devices).isdisjoint(slot.spec.devices):
                continue
            if slot.idle:
                self._slots.retire(slot)
            elif slot.will_claim:  # it only starts
                self._slots.kill(slot)
            else:  # it ends what it runs or was opened for, and takes no other
                slot.left_out = True
