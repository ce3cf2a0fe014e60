"""The scheduler: what waits for slots, kept up to date with ledger, gates, plans and hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args
from zlib import crc32

from benchfleet import registry
from benchfleet.benchmarks.base import is_exclusive
from benchfleet.domain.attempt import Advice, CellRecord, Claim
from benchfleet.domain.cell import Cell
from benchfleet.domain.eligibility import PROBED
from benchfleet.domain.event import Event
from benchfleet.domain.phase import GATE_EVENTS
from benchfleet.domain.plan import ASSIGNED
from benchfleet.domain.resource import Need
from benchfleet.domain.state import State
from benchfleet.errors import LedgerAway
from benchfleet.policies.base import DEFAULT
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.event_feed import EventFeed
from benchfleet.runner.resources.devices import Devices
from benchfleet.runner.resources.hosts import Hosts
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.scheduler.affordability import Affordability
from benchfleet.runner.scheduler.backlog import Backlog
from benchfleet.runner.scheduler.claims import ClaimInputs, SlotClaims
from benchfleet.runner.scheduler.dispatch import Dispatcher
from benchfleet.runner.scheduler.oom_advice import OomAdvice
from benchfleet.runner.scheduler.placement_resolver import PlacementResolver
from benchfleet.runner.scheduler.policy_view import PolicyView
from benchfleet.runner.scheduler.reservations import Reservations
from benchfleet.runner.scheduler.run_request import RunRequest
from benchfleet.runner.scheduler.splitter import Splitter
from benchfleet.runner.scheduler.work_stealing import WorkStealing

# Why a cell may not be claimed although it waits: its phase has not begun, the plan gives it to
# another runner, or it waits for its parts.
HoldReason = Literal["gate", "plan", "parts"]

_MAX_LEARNED_CELLS = 5000  # cells of earlier runs that times are learned from


class Scheduler:
    """Keeps the backlog of one runner in step with its surroundings, and dispatches it to slots."""

    def __init__(
        self,
        context: RunnerContext,
        request: RunRequest,
        *,
        feed: EventFeed,
        slots: Slots,
        hosts: Hosts,
        begin: Callable[[Slot, Claim], None],
        fetch: Callable[[Sequence[CellRecord]], None],
        was_split: Callable[[str, int], None],
    ) -> None:
        self._ledger, self._now = context.ledger, context.inbox.now
        self._feed, self._slots, self._load_placement = feed, slots, request.placement
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
            holds=context.heartbeat.holds,
            first=spread % max(1, len(cells)),
        )
        self._reservations = reservations = Reservations(slots, self.backlog.estimates, self._now)
        # What the feed reported, until a component has acted on it.
        self.cells_enrolled = False  # or planned
        self.gates_decided = True
        self._placement_changed = False  # a host was probed, or a plan made
        self.exclusions_changed = False
        self._held_back: dict[HoldReason, frozenset[str]] = dict.fromkeys(
            get_args(HoldReason), frozenset()
        )
        self.devices = Devices(
            slots=slots,
            hosts=hosts,
            pools=pools,
            cells=cells,
            placement=lambda: placement.placement,
            changed=self._sort_again,
            endpoint_slots=request.endpoint_slots,
        )
        self._tell_hosts(cells)
        self.splitter = Splitter(
            context,
            cells,
            slots,
            self.backlog,
            pools=lambda: self.devices.pools,
            fetch=fetch,
            was_split=was_split,
            add_cells=self.add_cells,
            changed=self._hold_wholes,
        )
        policy_view = PolicyView(policy, slots, self.backlog, self._now)
        self.affordability = Affordability(request.budget, slots, self.backlog, self._now)
        inputs = ClaimInputs(
            cells=cells,
            backlog=self.backlog,
            advice=self.advice,
            reservations=reservations,
            policy_view=policy_view,
            affordability=self.affordability,
        )
        self.dispatcher = Dispatcher(
            slots,
            backlog=self.backlog,
            claims=SlotClaims(
                context,
                slots,
                inputs,
                begin=begin,
                follow=self.follow,
                decide_split=self.splitter.decide,
            ),
            devices=self.devices,
            reservations=reservations,
            policy_view=policy_view,
            stealing=WorkStealing(self.backlog, slots, reservations, placement, self._now),
        )

    def _tell_hosts(self, cells: Mapping[str, Cell]) -> None:
        if any(cell.hardware for cell in cells.values()):
            self._slots.tell_hosts()

    def load_state(self) -> None:
        """Load what waits, and learn from what ended; later events come by the feed."""
        with contextlib.suppress(LedgerAway):  # then all of its history is followed
            self._feed.start_after(self._ledger.last_event())
        self._feed.subscribe(self._follow)
        self._apply_placement()
        self.splitter.load()
        ended: list[CellRecord] = []
        others: list[CellRecord] = []
        for record in self._ledger.cells(states=["pending", "running", "success"]):
            if record.state != "success":
                self.backlog.load_records([record], self._now())
            else:
                (ended if record.fingerprint in self._cells else others).append(record)
        trials = {record.fingerprint for record in others[:: 1 + len(others) // _MAX_LEARNED_CELLS]}
        ended = ended[:: 1 + len(ended) // _MAX_LEARNED_CELLS]
        ended += self._ledger.cells(fingerprints=trials, with_cell=True) if trials else []
        self.backlog.estimates.remember(
            (record.cell or self._cells[record.fingerprint], record.outcome)
            for record in ended
            if record.outcome is not None
        )

    def _follow(self, events: Sequence[Event]) -> None:
        kinds = {event.kind for event in events}
        self.cells_enrolled |= not kinds.isdisjoint(("enrolled", ASSIGNED))
        self.gates_decided |= not kinds.isdisjoint(GATE_EVENTS)
        self._placement_changed |= not kinds.isdisjoint((ASSIGNED, PROBED))
        self.backlog.follow(events, self._now())
        self.splitter.follow(events)

    def _apply_placement(self) -> None:
        """Apply the current reports and plan."""
        placement, before = self._load_placement(), self._placement.placement
        self._placement_changed = False
        if not (placement.binds or before.binds):
            return
        self.exclusions_changed = True
        self._slots.tell_hosts()
        self._placement.use(placement)
        self.backlog.reshape(self._cells)
        self.devices.apply_placement()

    def explain_exclusions(self) -> list[str]:
        """Why hosts of this run may not have some waiting cells, and which reports are unusable."""
        self.exclusions_changed = False
        waiting = (self._cells[name] for name in self.backlog.waiting)
        return [*self._placement.placement.notes, *self._placement.explanations(waiting)]

    def _sort_again(self) -> None:
        self._reservations.clear()
        if self._placement.refresh():
            self.backlog.reshape(self._placement.placement.planned_hosts)
            self.backlog.reshape(
                name for name, cell in self._cells.items() if cell.hardware or is_exclusive(cell)
            )
        self.backlog.reshape(self.advice.cells)

    def add_cells(self, cells: Sequence[Cell]) -> list[str]:
        """Add cells; the names of those that are new."""
        by_name = {str(cell.fingerprint): cell for cell in cells}
        new = {name: cell for name, cell in by_name.items() if name not in self._cells}
        if new:
            waiting = list(self._ledger.cells(states=["pending", "running"], fingerprints=new))
            self._cells.update(new)
            self._tell_hosts(new)
            self.backlog.add_cells(new)
            self.backlog.load_records(waiting, self._now())
            self.devices.add_cells(new)
        return list(new)

    def hold_back(self, reason: HoldReason, fingerprints: Iterable[str]) -> bool:
        """Hold back exactly these cells for this reason; whether that changed. If the ledger cannot
        be read, nothing changes."""
        now_held = {**self._held_back, reason: frozenset(fingerprints)}
        if now_held == self._held_back:
            return False
        before, after = (frozenset().union(*one.values()) for one in (self._held_back, now_held))
        freed = (before - after).intersection(self._cells)
        states: Sequence[State] = ["pending", "running"]
        waiting = list(self._ledger.cells(states=states, fingerprints=freed)) if freed else []
        self._held_back = now_held
        self.backlog.hold_back(after)
        # The run waits for cells in parts.
        self.devices.hold_back(now_held["gate"] | now_held["plan"])
        self.backlog.load_records(waiting, self._now())
        return True

    @property
    def left_to_others(self) -> frozenset[str]:
        """The cells that the plan gives to other runners."""
        return self._held_back["plan"]

    def _hold_wholes(self) -> None:
        """Hold back exactly the cells that wait for their parts."""
        with contextlib.suppress(LedgerAway):  # then at the next look
            self.hold_back("parts", self.splitter.waiting)

    def drop_longer_than(self, seconds: float) -> None:
        """Begin no cell that should take longer."""
        if dropped := self.backlog.drop_longer_than(seconds):
            self.devices.drop_cells(dropped)

    def advise(self, fingerprint: str, advice: Advice) -> None:
        """Take the ledger's advice for a cell that may wait."""
        if self.advice.update(fingerprint, advice):
            self.backlog.reshape([fingerprint])

    def needs(self) -> Mapping[Need, int]:
        """How many cells wait, by what they need, for engines that can get machines for them."""
        self.affordability.note_shortest()
        return self.backlog.needs()

    def follow(self) -> None:
        """Read the feed of what other runners and people did."""
        self._feed.poll()
        self.splitter.update()
        self._hold_wholes()
        self.backlog.wake(self._now())
        if self._placement_changed:
            with contextlib.suppress(LedgerAway):  # then the next time
                self._apply_placement()

    def unblock_whole(self, ended: Cell) -> bool:
        """If this cell, which ended well, is a part, read what that changes. Whether another cell
        may be claimed now: the whole."""
        if ended.part is not None:
            self.follow()
        return ended.part is not None
