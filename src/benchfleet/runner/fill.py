"""Giving idle slots cells, and opening and closing slots as the waiting cells need them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

from benchfleet.domain.attempt import Advice, CellRecord, Claim, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Device, Need, Offer
from benchfleet.errors import LedgerFull
from benchfleet.ledger.base import Ledger
from benchfleet.policies.base import Policy, Wish, Work
from benchfleet.runner.attempts import Attempt
from benchfleet.runner.backlog import Backlog, Lane
from benchfleet.runner.bookings import Bookings, service
from benchfleet.runner.fences import Fences
from benchfleet.runner.hosts import Hosts
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.place import Pool, Shape, impossible, larger_than, with_device, without
from benchfleet.runner.retry import Memory
from benchfleet.runner.slots import Slot, Slots
from benchfleet.runner.trust import vouched

MAX_BAD_STARTS = 3  # slots in a row that never said hello before their devices are left out
_LEARNED = 5000  # cells of earlier runs that times are learned from
_BACKFILL = 32  # cells that one claim chooses from, where they must end in time


class Filler:
    """Claims for the slots of one runner; what cannot run on its devices is named, not waited for.

    Machines may come and go meanwhile. Cells are served by the shape of the slot that they need:
    the largest priority first, then the widest, since they need whole devices. Which cell of a
    shape a slot is given is the policy's to say. Where nothing that is open could ever take a cell,
    devices are booked for it: slots on them take only what ends before they could all be free. A
    slot that finds nothing to do while a cell waits for other devices is closed. Where memory ran
    out under a cell the ledger advises another slot for it, also after an attempt of another
    runner; what no machine here has of that is done without, after all else.
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
        policy: Policy,
        now: Callable[[], float],
        begin: Callable[[Slot, Claim], None],
    ) -> None:
        self._runner, self._ledger, self._keeper = runner, ledger, keeper
        self._slots, self._hosts, self._begin = slots, hosts, begin
        self._policy, self._now = policy, now
        self._pools = list(pools)
        self._origins = {pool.host: pool for pool in pools}  # as each machine came
        self._grown: list[Device] = []  # what was added to them since
        self._cells = {str(cell.fingerprint): cell for cell in cells}
        self._by_need: dict[Need, list[str]] = {}
        for fingerprint, cell in self._cells.items():
            self._by_need.setdefault(cell.need, []).append(fingerprint)
        types = [device.type for pool in pools for device in pool.devices[:1]]
        self.backlog = Backlog(cells, policy, types[0] if types else "")
        self._bookings = Bookings(slots, self.backlog, now)
        self._bad_starts: dict[tuple[Device, ...], int] = {}
        self._fences = Fences()
        self._advice: dict[str, Advice] = {}  # that asks for another slot than its cell does
        self._in_vain: set[Lane] = set()  # that a slot claimed of just now, and got nothing
        self._possible: frozenset[Need] | None = None
        self._expecting = False
        self.able: frozenset[str] = frozenset()  # the cells that a machine here may take
        self._no_time: set[str] = set()  # cells that would take too long for this runner
        self.enrolled = False  # somebody enrolled cells since
        self.sort_out()

    def survey(self) -> None:
        """See what waits, and learn from what has ended; what happens from now on is followed."""
        with contextlib.suppress(LedgerFull):  # then all of its history is followed
            event = Event(kind="run_began", data={"runner": self._runner})
            self.backlog.begin(self._ledger.record(event))
        now = self._now()
        ended: list[CellRecord] = []
        others: list[CellRecord] = []
        for record in self._ledger.cells(states=["pending", "success"]):
            if record.state == "success":
                (ended if record.fingerprint in self._cells else others).append(record)
            elif record.fingerprint in self._cells:
                until = now + record.ready_in if record.ready_in > 0 else None
                self.backlog.waits(record.fingerprint, until=until)
        trials = {record.fingerprint for record in others[:: 1 + len(others) // _LEARNED]}
        ended = ended[:: 1 + len(ended) // _LEARNED]
        ended += self._ledger.cells(among=trials, whole=True) if trials else []
        for record in ended:
            cell = record.cell or self._cells[record.fingerprint]
            if record.outcome is not None:
                self.backlog.history.learn(cell, record.outcome)
        self.backlog.estimate()

    def follow(self) -> None:
        """Take in what other runners and people did."""
        now = self._now()
        events = self._ledger.events(self.backlog.seen)
        self.enrolled |= any(event.kind == "enrolled" for event in events)
        self.backlog.follow(events, now)
        self.backlog.wake(now)

    def take_in(self, cells: Sequence[Cell]) -> list[str]:
        """Be about all of these cells; which of them are new."""
        self.enrolled = False
        found = {str(cell.fingerprint): cell for cell in cells}
        new = {name: cell for name, cell in found.items() if name not in self._cells}
        if new:
            self._cells.update(new)
            for fingerprint, cell in new.items():
                self._by_need.setdefault(cell.need, []).append(fingerprint)
            self.backlog.take_in(new)
            for record in self._ledger.cells(states=["pending"], among=new):
                until = self._now() + record.ready_in if record.ready_in > 0 else None
                self.backlog.waits(record.fingerprint, until=until)
            self._possible = None  # they may ask for what nobody asked for yet
            self.sort_out()
        return list(new)

    def leave_out(self, seconds: float) -> None:
        """Begin nothing any more that should take longer."""
        if left := self.backlog.leave_out(seconds):
            self._no_time.update(left)
            self.able = self.able.difference(left)

    def sort_out(self) -> None:
        """Which cells the machines that are here can take, by the shape of their slots."""
        self._pools = self._fences.whole(self._pools)
        self._slots.use(self._fences.open_pools(self._pools))
        self._bookings.clear()
        self._larger: dict[tuple[int, int], int] = {}
        expecting = self._hosts.expecting  # whatever cannot run now, may run there
        possible = frozenset(need for need in self._by_need if not impossible(need, self._pools))
        if (possible, expecting) != (self._possible, self._expecting):
            self._possible, self._expecting = possible, expecting
            here = [f for need in possible for f in self._by_need[need]]
            able = frozenset(self._cells if expecting else here)
            self.able = able.difference(self._no_time)
            self.for_hosts = self.able.difference(here)  # a machine which is away may take these
        for fingerprint in self._advice:
            self.backlog.move(fingerprint, self._shape(fingerprint))

    @property
    def impossible(self) -> list[tuple[Cell, str]]:
        """The cells that no machine will take, and why."""
        if self._hosts.expecting:
            return []
        reasons = {need: impossible(need, self._pools) for need in self._by_need}
        return [(cell, why) for cell in self._cells.values() if (why := reasons[cell.need])]

    def add(self, pool: Pool) -> None:
        """A machine can be used from now on."""
        left = [known for known in self._pools if known.host != pool.host]
        self._origins[pool.host] = pool
        self._pools = self._fences.whole([*left, pool])
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
                self._slots.count(slot)
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
        lacking = [need for need in self._by_need if impossible(need, left)]
        return self.able.intersection(f for need in lacking for f in self._by_need[need])

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
        self.backlog.move(fingerprint, self._shape(fingerprint))
        return True

    def memory_of(self, attempt: Attempt) -> Memory:
        """What of memory an attempt has now, and could have."""
        devices = attempt.spec.devices
        size = (len(devices), min(device.memory for device in devices))
        if devices[0].kind == "gpu" and size not in self._larger:
            self._larger[size] = larger_than(devices, self._pools)
        return Memory(
            batch_size=attempt.claim.batch_size,
            shared=self._slots.seats.shared(devices),
            larger=self._larger.get(size, 0) if devices[0].kind == "gpu" else 0,
        )

    def _shape(self, fingerprint: str) -> Shape:
        width = max(1, self._cells[fingerprint].need.gpus)
        advice = self._advice.get(fingerprint, Advice())
        alone, floor = advice.alone and width == 1, advice.vram
        if not floor:
            return Shape(width, alone)
        if any(sum(d.memory >= floor for d in pool.devices) >= width for pool in self._pools):
            return Shape(width, alone, floor)
        return Shape(width, alone, late=True)

    def fill(self) -> list[Slot]:
        """Give every idle slot a cell, and open slots while there is room and work; the slots
        that were opened."""
        self.backlog.wake(self._now())
        opened: list[Slot] = []
        while not self._served(opened):
            continue  # from the beginning: a cell is to have another slot than was known
        return opened

    def _served(self, opened: list[Slot]) -> bool:
        """Serve all that waits in its order; False where that order was found to be another."""
        if not self._slots.idle and self._slots.seats.full:
            return True
        shapes: dict[Shape, list[Lane]] = {}
        for lane in self.backlog.lanes():
            if self._possible is not None and lane.need in self._possible:
                shapes.setdefault(lane.shape, []).append(lane)
        lacking = False
        self._in_vain.clear()
        for lane in sorted(chain(*shapes.values()), key=service):
            self._bookings.book(lane, shapes)
        for shape in sorted(shapes, key=lambda shape: min(map(service, shapes[shape]))):
            lanes = shapes[shape]
            warm = {lane.work.load_key for lane in lanes}
            idle = [slot for slot in self._slots.idle if slot.takes(shape)]
            for slot in sorted(idle, key=lambda slot: slot.load_key not in warm):
                if not self._claim_for(slot, shape, lanes):
                    return False
            lacking |= self._open_for(shape, lanes, opened)
        if lacking:
            for slot in self._slots.idle:
                self._slots.retire(slot)
        elif not (opened or self._slots.any_busy or len(self._slots) > len(self._slots.idle)):
            return self._serve_anything(shapes, opened)
        return True

    def _serve_anything(self, shapes: dict[Shape, list[Lane]], opened: list[Slot]) -> bool:
        """Nothing goes on at all: do what the policy would rather not."""
        for shape, lanes in shapes.items():
            for slot in self._slots.idle:
                if slot.takes(shape) and not self._claim_for(slot, shape, lanes, wish=Wish()):
                    return False
            if not self._slots.any_busy:
                self._open_for(shape, lanes, opened, wish=Wish())
        return True

    def _works(self, shape: Shape, lanes: Sequence[Lane], *, but: str = "") -> list[Work]:
        """What the policy is to see of them; the slot that asks has the model `but` itself."""
        for lane in lanes:
            serving = self._slots.serving(shape, lane.work.load_key)
            lane.work.serving = serving - (lane.work.load_key == but)
            lane.work.load = self.backlog.load(lane)
        return [lane.work for lane in lanes]

    def _claim_for(
        self, slot: Slot, shape: Shape, lanes: Sequence[Lane], *, wish: Wish | None = None
    ) -> bool:
        """Claim for an idle slot; False where the claim told that its cell is to have another."""
        vram = self._slots.seats.left_on(slot.spec.devices, slot.holds)
        fit = [
            lane
            for lane in lanes
            if lane.work.cells and lane.need.gpus <= slot.gpus and lane.need.vram <= vram
        ]
        if not fit:
            return True
        among, booked = self.backlog.choice(shape), self._bookings.lane_for(slot)
        if booked in fit:
            wish = Wish(models={booked.work.load_key: 0.0}, others=None)
        elif booked is not None and service(booked) < min(map(service, fit)):
            limit = self._bookings.seconds_before(booked)
            among = Choice(self._ending_within(limit, slot, fit))
            wish = Wish() if len(among) else None
        elif wish is None:
            works = self._works(shape, fit, but=slot.load_key or slot.meant_for)
            wish = self._policy.wish(slot.load_key, works)
        if wish is None:
            return True
        offer = Offer(
            gpus=slot.gpus, vram=vram, models=wish.models, others=wish.others, among=among
        )
        claims = self._ledger.claim(self._runner, offer, 1)
        if not claims:  # others were quicker, or a back-off ends a moment later
            self.follow()
            self._in_vain.update(fit)
        known = self._cells
        vouch = (vouched(claim, known[claim.lease.fingerprint]) for claim in claims)
        return all(self._begin_on(slot, claim) for claim in vouch)

    def _ending_within(self, limit: float, slot: Slot, lanes: Sequence[Lane]) -> list[str]:
        """Cells that the slot should have ended in so many seconds."""
        found: list[str] = []
        for lane in sorted(lanes, key=lambda lane: lane.work.load_key != slot.load_key):
            load = 0.0 if lane.work.load_key == slot.load_key else self.backlog.load(lane)
            found += self.backlog.ending_within(lane, limit - load, _BACKFILL - len(found))
        return found

    def _begin_on(self, slot: Slot, claim: Claim) -> bool:
        fingerprint = claim.lease.fingerprint
        self.backlog.taken(fingerprint)
        if self.advise(fingerprint, claim.advice):
            shape = self._shape(fingerprint)
            fits = slot.memory >= shape.memory and slot.alone >= shape.alone
            if shape.late or not fits:
                self._ledger.release([claim.lease], f"it is to be run {claim.advice}")
                self.backlog.waits(fingerprint)
                return False
        self._slots.progress.move(fingerprint, "running")
        if claim.cell.model.python == slot.spec.python:
            self._begin(slot, claim)
        else:  # it wants another interpreter: a new slot on these devices takes it
            self._keeper.hold(claim.lease)
            slot.reserved = claim
            self._slots.retire(slot)
        return True

    def _open_for(
        self,
        shape: Shape,
        lanes: Sequence[Lane],
        opened: list[Slot],
        *,
        wish: Wish | None = None,
    ) -> bool:
        """Open slots for the cells of one shape that wait; whether one waits for devices that
        are taken."""
        if not any(lane.work.cells for lane in lanes):
            return False
        if not self._slots.idle and self._slots.seats.full:
            return False
        meant = Counter(s.meant_for for s in self._slots.starting if s.takes(shape))
        needs: dict[tuple[int, ...], list[Lane]] = {}
        for lane in lanes:
            needs.setdefault(service(lane), []).append(lane)
        lacking = False
        for _, alike in sorted(needs.items()):
            while wanted := self._wanted(shape, alike, meant, wish):
                devices = self._bookings.room_for(wanted)
                if devices is None:
                    lacking = True
                    break
                memory = max(wanted.need.vram, shape.memory)
                model = wanted.work.load_key
                slot = self._slots.open(
                    devices, shape.width, alone=shape.alone, memory=memory, meant_for=model
                )
                meant[model] += 1
                opened.append(slot)
        return lacking

    def _wanted(
        self, shape: Shape, lanes: Sequence[Lane], meant: Counter[str], wish: Wish | None
    ) -> Lane | None:
        """What the policy would give one more slot; None for nothing."""
        open_ = [
            lane
            for lane in lanes
            if lane.work.cells > meant[lane.work.load_key] and lane not in self._in_vain
        ]
        wish = wish or self._policy.wish("", self._works(shape, open_))
        if wish is None or not open_:
            return None
        offer = Offer(models=wish.models, others=wish.others)
        weights = [(offer.weight(lane.work.load_key), lane) for lane in open_]
        wanted = [(weight, lane) for weight, lane in weights if weight is not None]
        return min(wanted, key=lambda one: one[0])[1] if wanted else None

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
                self._slots.count(slot)
