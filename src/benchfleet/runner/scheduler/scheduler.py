"""What waits for slots, and what keeps it from them: kept up to date as things happen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from zlib import crc32

from benchfleet import registry
from benchfleet.domain.attempt import Advice, CellRecord, Claim
from benchfleet.domain.cell import Cell
from benchfleet.domain.eligibility import PROBED
from benchfleet.domain.event import Event
from benchfleet.domain.phase import GATE_EVENTS
from benchfleet.domain.plan import ASSIGNED
from benchfleet.domain.state import State
from benchfleet.errors import LedgerAway, LedgerFull
from benchfleet.policies.base import DEFAULT
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.event_feed import EventFeed
from benchfleet.runner.resources.devices import Devices
from benchfleet.runner.resources.hosts import Hosts
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.dispatch import Dispatcher, DispatchInputs
from benchfleet.runner.scheduler.oom_advice import OomAdvice
from benchfleet.runner.scheduler.placement import PlacementResolver
from benchfleet.runner.scheduler.policy_view import PolicyView
from benchfleet.runner.scheduler.reservations import Reservations
from benchfleet.runner.scheduler.run_request import RunRequest
from benchfleet.runner.scheduler.work_stealing import WorkStealing

_LEARNED = 5000  # cells of earlier runs that times are learned from


class Scheduler:
    """What waits for the slots of one runner, as the ledger, gates, plans and machines have it; and
    the giving of it."""

    def __init__(
        self,
        context: RunnerContext,
        request: RunRequest,
        *,
        feed: EventFeed,
        slots: Slots,
        hosts: Hosts,
        begin: Callable[[Slot, Claim], None],
    ) -> None:
        self._runner, self._ledger, self._now = context.runner, context.ledger, context.inbox.now
        self._feed, self._slots, self._told_placing = feed, slots, request.placing
        self._cells = cells = {str(cell.fingerprint): cell for cell in request.cells}
        policy = request.policy or registry.load("policies", DEFAULT)()
        pools = [context.local_host.pool] if context.local_host.pool else []
        types = [device.type for pool in pools for device in pool.devices[:1]]
        self._placement = placement = PlacementResolver(
            hosts, slots.allocator, lambda: self.devices.pools
        )
        self.advice = OomAdvice(cells, slots.allocator, lambda: self.devices.pools, placement)
        spread = crc32(context.runner.encode()) if context.ledger.multi_host else 0
        self.backlog = Backlog(
            context.runner,
            cells,
            policy,
            types[0] if types else "",
            self.advice.shape,
            first=spread % max(1, len(cells)),
        )
        self._reservations = Reservations(slots, self.backlog.estimates, self._now)
        self._placed_anew = False  # a machine was probed since, or a plan was made
        self.placed = False  # by other reports or another plan than was told of
        self.enrolled = False  # somebody enrolled cells since, or planned who runs which
        self.decided = True  # somebody decided on a gate since
        self._held: frozenset[str] = frozenset()  # for whatever reason
        self._by_gates: frozenset[str] = frozenset()
        self._given_up: frozenset[str] = frozenset()  # to others
        self.devices = Devices(
            slots=slots,
            hosts=hosts,
            pools=pools,
            cells=cells,
            placing=lambda: placement.placing,
            changed=self._sort_again,
        )
        waiting = DispatchInputs(
            cells=cells,
            backlog=self.backlog,
            advice=self.advice,
            devices=self.devices,
            reservations=self._reservations,
            stealing=WorkStealing(self.backlog, slots, self._reservations, placement),
            policy_view=PolicyView(policy, slots, self.backlog, self._now),
        )
        self._dispatcher = Dispatcher(context, slots, waiting, begin=begin, follow=self.follow)

    def survey(self) -> None:
        """See what waits, and learn from what has ended; what happens from now on is followed."""
        with contextlib.suppress(LedgerFull, LedgerAway):  # then all of its history is followed
            event = Event(kind="run_began", data={"runner": self._runner})
            self._feed.begin(self._ledger.record(event))
        self._feed.tell(self._follow)
        self._place()
        ended: list[CellRecord] = []
        others: list[CellRecord] = []
        for record in self._ledger.cells(states=["pending", "running", "success"]):
            if record.state != "success":
                self.backlog.see([record], self._now())
            else:
                (ended if record.fingerprint in self._cells else others).append(record)
        trials = {record.fingerprint for record in others[:: 1 + len(others) // _LEARNED]}
        ended = ended[:: 1 + len(ended) // _LEARNED]
        ended += self._ledger.cells(fingerprints=trials, with_cell=True) if trials else []
        self.backlog.estimates.remember(
            (record.cell or self._cells[record.fingerprint], record.outcome)
            for record in ended
            if record.outcome is not None
        )

    def _follow(self, events: Sequence[Event]) -> None:
        self.enrolled |= any(event.kind in ("enrolled", ASSIGNED) for event in events)
        self.decided |= any(event.kind in GATE_EVENTS for event in events)
        self._placed_anew |= any(event.kind in (ASSIGNED, PROBED) for event in events)
        self.backlog.follow(events, self._now())

    def _place(self) -> None:
        """Go by the reports and the plan that there are now."""
        placing, before = self._told_placing(), self._placement.placing
        self._placed_anew = False
        if not (placing.binds or before.binds):
            return
        self.placed = True
        self._slots.tell_hosts()
        self._placement.use(placing)
        self.backlog.reshape(self._cells)
        self.devices.place()

    def kept_off(self) -> list[str]:
        """Which of the cells that wait the machines of this run may not have, and why; and what of
        it could not be heeded."""
        self.placed = False
        waiting = (self._cells[name] for name in self.backlog.waiting)
        return [*self._placement.placing.notes, *self._placement.explanations(waiting)]

    def _sort_again(self) -> None:
        self._reservations.clear()
        if self._placement.refresh():
            self.backlog.reshape(self._placement.placing.homes)
        self.backlog.reshape(self.advice.cells)

    def take_in(self, cells: Sequence[Cell]) -> list[str]:
        """Be about all of these cells; which of them are new."""
        found = {str(cell.fingerprint): cell for cell in cells}
        new = {name: cell for name, cell in found.items() if name not in self._cells}
        if new:
            waiting = list(self._ledger.cells(states=["pending", "running"], fingerprints=new))
            self._cells.update(new)
            self.backlog.take_in(new)
            self.backlog.see(waiting, self._now())
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
        feed, self._given_up = given_up != self._given_up, given_up
        if feed:
            self._hold()
        return feed

    def _hold(self) -> None:
        held = (self._by_gates | self._given_up).intersection(self._cells)
        again = self._held - held
        states: Sequence[State] = ["pending", "running"]
        waiting = list(self._ledger.cells(states=states, fingerprints=again)) if again else []
        before, self._held = self._held, held
        self.backlog.hold(held - before)
        self.devices.hold(held)
        self.backlog.let_go(again)
        self.backlog.see(waiting, self._now())

    def leave_out(self, seconds: float) -> None:
        """Begin nothing any more that should take longer."""
        if left := self.backlog.leave_out(seconds):
            self.devices.leave_out(left)

    def advise(self, fingerprint: str, advice: Advice) -> None:
        """Take the ledger's advice for a cell that may wait."""
        if self.advice.take(fingerprint, advice):
            self.backlog.reshape([fingerprint])

    def follow(self) -> None:
        """Take in what other runners and people did."""
        self._feed.read()
        self.backlog.wake(self._now())
        if self._placed_anew:
            with contextlib.suppress(LedgerAway):  # then the next time
                self._place()

    def fill(self) -> list[Slot]:
        """Give every idle slot a cell, and open slots while there is room and work; the slots
        that were opened."""
        return self._dispatcher.fill()
