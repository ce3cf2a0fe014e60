"""Giving idle slots cells, and opening and closing slots as the waiting cells need them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from benchfleet.domain.attempt import CellRecord, Claim, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.eligibility import PROBED
from benchfleet.domain.event import Event
from benchfleet.domain.phase import GATE_EVENTS
from benchfleet.domain.placing import Placing
from benchfleet.domain.plan import ASSIGNED
from benchfleet.domain.resource import Choice, Offer
from benchfleet.domain.state import State
from benchfleet.errors import LedgerAway, LedgerFull
from benchfleet.ledger.base import Ledger
from benchfleet.policies.base import Policy, Wish, Work
from benchfleet.runner.advised import Advised
from benchfleet.runner.backlog import Backlog
from benchfleet.runner.bookings import Bookings, service
from benchfleet.runner.devices import Devices
from benchfleet.runner.hosts import Hosts
from benchfleet.runner.lanes import Lane
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.news import News
from benchfleet.runner.place import Pool, Shape
from benchfleet.runner.slots import Slot, Slots
from benchfleet.runner.straying import Straying
from benchfleet.runner.trust import vouched
from benchfleet.runner.whither import Whither

_LEARNED = 5000  # cells of earlier runs that times are learned from
_BACKFILL = 32  # cells that one claim chooses from, where they must end in time


class Filler:
    """Claims for the slots of one runner.

    Cells are served by the shape of the slot that they need: the largest priority first, then the
    widest, since they need whole devices. Which cell of a shape a slot is given is the policy's to
    say. Where nothing that is open could ever take a cell, devices are booked for it: slots on them
    take only what ends before they could all be free. A slot that finds nothing to do while a cell
    waits for other devices is closed. What a plan gave to a machine is served there first; a slot
    of another machine, which would be idle, takes of it what it ends sooner.
    """

    def __init__(
        self,
        *,
        runner: RunnerId,
        ledger: Ledger,
        keeper: LeaseKeeper,
        news: News,
        slots: Slots,
        pools: Sequence[Pool],
        hosts: Hosts,
        cells: dict[str, Cell],
        policy: Policy,
        now: Callable[[], float],
        begin: Callable[[Slot, Claim], None],
        placing: Callable[[], Placing],
    ) -> None:
        self._runner, self._ledger, self._keeper = runner, ledger, keeper
        self._news, self._slots, self._begin = news, slots, begin
        self._policy, self._now, self._cells = policy, now, cells
        types = [device.type for pool in pools for device in pool.devices[:1]]
        self._told_placing = placing
        self._whither = whither = Whither(hosts, lambda: self.devices.pools)
        self.backlog = Backlog(runner, cells, policy, types[0] if types else "", whither)
        self._straying = Straying(self.backlog, slots.seats, whither)
        self._bookings = Bookings(slots, self.backlog.estimates, now)
        self.advised = Advised(
            cells, self.backlog, slots.seats, lambda: self.devices.pools, whither
        )
        self._placed_anew = False  # a machine was probed since, or a plan was made
        self.placed = False  # by other reports or another plan than was told of
        self.enrolled = False  # somebody enrolled cells since, or planned who runs which
        self.decided = True  # somebody decided on a gate since
        self._held: frozenset[str] = frozenset()  # for whatever reason
        self._by_gates: frozenset[str] = frozenset()
        self._given_up: frozenset[str] = frozenset()  # to others
        self._in_vain: set[Lane] = set()  # that a slot claimed of just now, and got nothing
        self._unwished: set[tuple[object, ...]] = set()  # slots that the policy gives nothing now
        self.devices = Devices(
            slots=slots,
            hosts=hosts,
            pools=pools,
            cells=cells,
            placing=lambda: whither.placing,
            changed=self._sort_again,
        )

    def survey(self) -> None:
        """See what waits, and learn from what has ended; what happens from now on is followed."""
        with contextlib.suppress(LedgerFull, LedgerAway):  # then all of its history is followed
            event = Event(kind="run_began", data={"runner": self._runner})
            self._news.begin(self._ledger.record(event))
        self._news.tell(self._follow)
        self._place()
        ended: list[CellRecord] = []
        others: list[CellRecord] = []
        for record in self._ledger.cells(states=["pending", "running", "success"]):
            if record.state != "success":
                self._see_waiting([record])
            else:
                (ended if record.fingerprint in self._cells else others).append(record)
        trials = {record.fingerprint for record in others[:: 1 + len(others) // _LEARNED]}
        ended = ended[:: 1 + len(ended) // _LEARNED]
        ended += self._ledger.cells(among=trials, whole=True) if trials else []
        self.backlog.estimates.remember(
            (record.cell or self._cells[record.fingerprint], record.outcome)
            for record in ended
            if record.outcome is not None
        )

    def _see_waiting(self, records: Iterable[CellRecord]) -> None:
        """Take in cells that have not ended."""
        now = self._now()
        for record in records:
            if record.fingerprint not in self._cells:
                continue
            if record.state == "running":
                self.backlog.runs_elsewhere(record.fingerprint, now)
            else:
                until = now + record.ready_in if record.ready_in > 0 else None
                self.backlog.waits(record.fingerprint, until=until)

    def _follow(self, events: Sequence[Event]) -> None:
        self.enrolled |= any(event.kind in ("enrolled", ASSIGNED) for event in events)
        self.decided |= any(event.kind in GATE_EVENTS for event in events)
        self._placed_anew |= any(event.kind in (ASSIGNED, PROBED) for event in events)
        self.backlog.follow(events, self._now())

    def _place(self) -> None:
        """Go by the reports and the plan that there are now."""
        placing, before = self._told_placing(), self._whither.placing
        self._placed_anew = False
        if not (placing.binds or before.binds):
            return
        self.placed = True
        self._slots.tell_hosts()
        self.backlog.place(self._cells, lambda: self._whither.use(placing))
        self.devices.place()

    def kept_off(self) -> list[str]:
        """Which of the cells that wait the machines of this run may not have, and why; and what of
        it could not be heeded."""
        self.placed = False
        waiting = (self._cells[name] for name in self.backlog.waiting)
        return [*self._whither.placing.notes, *self._whither.told(waiting)]

    def _sort_again(self) -> None:
        self._bookings.clear()
        if self._whither.anew():
            self.backlog.place(self._whither.placing.homes, self._whither.look)
        self.advised.again()

    def take_in(self, cells: Sequence[Cell]) -> list[str]:
        """Be about all of these cells; which of them are new."""
        found = {str(cell.fingerprint): cell for cell in cells}
        new = {name: cell for name, cell in found.items() if name not in self._cells}
        if new:
            waiting = list(self._ledger.cells(states=["pending", "running"], among=new))
            self._cells.update(new)
            self.backlog.take_in(new)
            self._see_waiting(waiting)
            self.devices.take_in(new)
        self.enrolled = False
        return list(new)

    def hold(self, fingerprints: Collection[str]) -> None:
        """Begin none of these cells, and again those that were held before and are not any more."""
        self._by_gates = frozenset(fingerprints)
        self._hold()

    def give_up(self, fingerprints: Collection[str]) -> bool:
        """Leave these cells to others, and take back what was left to them and is not any more;
        whether that is news."""
        given_up = frozenset(fingerprints)
        news, self._given_up = given_up != self._given_up, given_up
        if news:
            self._hold()
        return news

    def _hold(self) -> None:
        held = (self._by_gates | self._given_up).intersection(self._cells)
        again = self._held - held
        states: Sequence[State] = ["pending", "running"]
        waiting = list(self._ledger.cells(states=states, among=again)) if again else []
        before, self._held = self._held, held
        self.backlog.hold(held - before)
        self.devices.hold(held)
        self.backlog.let_go(again)
        self._see_waiting(waiting)

    def leave_out(self, seconds: float) -> None:
        """Begin nothing any more that should take longer."""
        if left := self.backlog.leave_out(seconds):
            self.devices.leave_out(left)

    def follow(self) -> None:
        """Take in what other runners and people did."""
        self._news.read()
        self.backlog.wake(self._now())
        if self._placed_anew:
            with contextlib.suppress(LedgerAway):  # then the next time
                self._place()

    def fill(self) -> list[Slot]:
        """Give every idle slot a cell, and open slots while there is room and work; the slots
        that were opened."""
        opened: list[Slot] = []
        if self._has_room():
            self.backlog.wake(self._now())
            while not self._served(opened):
                continue  # from the beginning: a cell is to have another slot than was known
        return opened

    def _served(self, opened: list[Slot]) -> bool:
        """Serve all that waits in its order; False where that order was found to be another."""
        can_take = self.devices.can_take
        lanes = [lane for lane in self.backlog.lanes() if can_take(lane.need, lane.shape.barred)]
        waiting = sorted(lanes, key=service)
        shapes: dict[Shape, list[Lane]] = {lane.shape: [] for lane in waiting}
        for lane in lanes:
            shapes[lane.shape].append(lane)
        lacking: list[tuple[Shape, bool]] = []
        self._straying.look()
        self._in_vain.clear()
        self._unwished.clear()
        self._bookings.book(waiting)
        for shape, lanes in shapes.items():
            if not self._serve(shape, lanes, opened, lacking):
                return False
        for shape, lanes in shapes.items() if self._has_room() else ():
            if self._straying.may(shape) and not self._serve(
                shape, lanes, opened, lacking, stray=True
            ):
                return False
        if lacking:
            self._retire_for(lacking)
        elif waiting and not opened and self._slots.all_idle:
            return self._serve_anything(shapes, opened)
        return True

    def _serve(
        self,
        shape: Shape,
        lanes: Sequence[Lane],
        opened: list[Slot],
        lacking: list[tuple[Shape, bool]],
        *,
        stray: bool = False,
    ) -> bool:
        """Serve the cells of one shape; as `_served`. What waits for devices that are taken is
        added to `lacking`; a stray slot waits for none that the machine of the plan has."""
        idle = [slot for slot in self._slots.idle if slot.takes(shape, stray=stray)]
        if not idle and not stray and shape.home and self._slots.seats.is_full(shape.home):
            return True
        warm = {lane.work.load_key for lane in lanes}
        for slot in sorted(idle, key=lambda slot: slot.load_key not in warm):
            if not self._claim_for(slot, shape, lanes, stray=stray):
                return False
        lacks = self._open_for(shape, lanes, opened, stray=stray)
        if lacks and not (stray and self._straying.is_served(shape)):
            lacking.append((shape, stray))
        return True

    def _has_room(self) -> bool:
        """Whether anything could begin a cell now."""
        return self._slots.any_idle or not self._slots.seats.full

    def _retire_for(self, lacking: Iterable[tuple[Shape, bool]]) -> None:
        """Close what is idle on the devices that these wait for."""
        for slot in self._slots.idle:
            if any(shape.suits(slot.spec.host, stray=stray) for shape, stray in lacking):
                self._slots.retire(slot)

    def _serve_anything(self, shapes: Mapping[Shape, list[Lane]], opened: list[Slot]) -> bool:
        """Nothing goes on at all: do what the policy would rather not."""
        lacking: list[tuple[Shape, bool]] = []
        for shape, lanes in shapes.items():
            stray = self._straying.may(shape)
            for slot in self._slots.idle:
                if slot.takes(shape, stray=stray) and not self._claim_for(
                    slot, shape, lanes, wish=Wish()
                ):
                    return False
            if self._slots.any_busy:
                continue
            if self._open_for(shape, lanes, opened, wish=Wish(), stray=stray):
                lacking.append((shape, stray))
        self._retire_for(lacking)  # those that are idle have the devices
        return True

    # A slot that is open

    def _claim_for(
        self,
        slot: Slot,
        shape: Shape,
        lanes: Sequence[Lane],
        *,
        wish: Wish | None = None,
        stray: bool = False,
    ) -> bool:
        """Claim for an idle slot; False where the claim told that its cell is to have another."""
        vram = self._slots.seats.left_on(slot.spec.devices, slot.holds)
        fit = [
            lane
            for lane in lanes
            if lane.work.cells and lane.need.gpus <= slot.gpus and lane.need.vram <= vram
        ]
        if stray:
            type_, model = slot.device_type, slot.load_key
            fit = [lane for lane in fit if self._straying.pays(lane, type_, loaded=model)]
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
            wish = self._wish(slot, shape, fit, vram)
        if wish is None:
            return True
        offer = Offer(
            gpus=slot.gpus, vram=vram, models=wish.models, others=wish.others, among=among
        )
        claims = self._ledger.claim(self._runner, offer, 1)
        if claims:
            self._unwished.clear()
            self._straying.look()
        else:  # others were quicker, or a back-off ends a moment later
            self.follow()
            self._in_vain.update(fit)
        known = self._cells
        vouch = (vouched(claim, known[claim.lease.fingerprint]) for claim in claims)
        return all(self._begin_on(slot, claim) for claim in vouch)

    def _wish(self, slot: Slot, shape: Shape, fit: Sequence[Lane], vram: int) -> Wish | None:
        """What the policy would give the slot; the same for all that are like it."""
        model = slot.load_key or slot.meant_for
        own = shape.suits(slot.spec.host)
        like = (shape, slot.load_key, model, slot.gpus, vram, "" if own else slot.spec.host)
        if like in self._unwished:
            return None
        works = self._works(shape, fit, but=model if own else "")
        wish = self._policy.wish(slot.load_key, works)
        if wish is None:
            self._unwished.add(like)
        return wish

    def _works(self, shape: Shape, lanes: Sequence[Lane], *, but: str = "") -> list[Work]:
        """What the policy is to see of them; the slot that asks has the model `but` itself."""
        for lane in lanes:
            serving = self._slots.tally.serving(shape, lane.work.load_key, lane.need)
            lane.work.serving = serving - (lane.work.load_key == but)
            lane.work.load = self.backlog.load(lane)
        return [lane.work for lane in lanes]

    def _ending_within(self, limit: float, slot: Slot, lanes: Sequence[Lane]) -> list[str]:
        """Cells that the slot should have ended in so many seconds."""
        found: list[str] = []
        for lane in sorted(lanes, key=lambda lane: lane.work.load_key != slot.load_key):
            load = 0.0 if lane.work.load_key == slot.load_key else self.backlog.load(lane)
            found += lane.ending_within(limit - load, _BACKFILL - len(found))
        return found

    def _begin_on(self, slot: Slot, claim: Claim) -> bool:
        fingerprint = claim.lease.fingerprint
        self.backlog.taken(fingerprint)
        if self.advised.heed(fingerprint, claim.advice):
            shape = self.advised.shape(fingerprint)
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

    # One more slot

    def _open_for(
        self,
        shape: Shape,
        lanes: Sequence[Lane],
        opened: list[Slot],
        *,
        wish: Wish | None = None,
        stray: bool = False,
    ) -> bool:
        """Open slots for the cells of one shape that wait; whether one waits for devices that
        are taken."""
        if not any(lane.work.cells for lane in lanes):
            return False
        if not self._has_room():
            return False
        meant = Counter(self._slots.tally.starting_for(shape, stray=stray))
        needs: dict[tuple[int, ...], list[Lane]] = {}
        for lane in lanes:
            needs.setdefault(service(lane), []).append(lane)
        lacking = False
        for _, alike in sorted(needs.items()):
            while wanted := self._wanted(shape, alike, meant, wish):
                devices = self._bookings.room_for(wanted, stray=stray)
                if devices is None:
                    lacking = True
                    break
                if stray and wish is None and not self._straying.pays(wanted, devices[0].type):
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
        if not open_:
            return None
        if (wish := wish or self._policy.wish("", self._works(shape, open_))) is None:
            return None
        offer = Offer(models=wish.models, others=wish.others)
        weights = [(offer.weight(lane.work.load_key), lane) for lane in open_]
        wanted = [(weight, lane) for weight, lane in weights if weight is not None]
        return min(wanted, key=lambda one: one[0])[1] if wanted else None
