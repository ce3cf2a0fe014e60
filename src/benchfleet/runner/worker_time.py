"""Keeping a runner to its shift: its time, what it is about, when it ends, and how it rests."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.errors import LedgerAway
from benchfleet.ledger.base import Ledger
from benchfleet.runner.events import EventQueue
from benchfleet.runner.execution.termination import Termination
from benchfleet.runner.outage import Outage
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.run_state import RunState
from benchfleet.runner.scheduler.gates import Gates
from benchfleet.runner.scheduler.scheduler import Scheduler
from benchfleet.runner.worker_options import LOOK_EVERY_S, STOP_GRACE_S, IdleBackoff, WorkerOptions

AWAY_LIMIT_S = 300.0  # seconds after which a run ends whose ledger is away and keeps its outcomes


class WorkerTime:
    """Sees to the shift of one runner."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        inbox: EventQueue,
        ledger: Ledger,
        outage: Outage,
        state: RunState,
        slots: Slots,
        scheduler: Scheduler,
        gates: Gates,
        termination: Termination,
    ) -> None:
        self._options, self._inbox = options, inbox
        self._ledger, self._outage = ledger, outage
        self._state, self._slots, self._scheduler = state, slots, scheduler
        self._gates, self._termination = gates, termination
        self._backoff = IdleBackoff(stays=options.stays, least=LOOK_EVERY_S)
        self._until: float | None = None
        self._time_is_up = False
        self.gave_up = False  # waiting for the ledger
        self._worked_at = 0.0  # when a cell ran last, as far as it was looked at

    def begin(self, now: float) -> None:
        """Its time begins."""
        self._worked_at = now
        if self._options.seconds is not None:
            self._until = now + self._options.seconds

    @property
    def pause(self) -> float:
        """Seconds between two looks."""
        return self._backoff.pause

    @property
    def works(self) -> bool:
        """Whether it looks as often as it ever does."""
        return self._backoff.pause == LOOK_EVERY_S

    @property
    def remaining(self) -> float | None:
        """Seconds; None where it stays for as long as there is work."""
        return None if self._until is None else self._until - self._inbox.now()

    def keep(self) -> None:
        """Take in what was enrolled since, and see to the end of this runner's time."""
        self.take_in_enrolled()
        self._give_up_ledger()
        if (remaining := self.remaining) is None:
            return
        self._scheduler.drop_longer_than(remaining)
        if remaining <= 0 and not self._time_is_up:
            self._time_is_up = True
            self._state.broken = self._state.broken or "the time of this runner is over"
            self._state.stop_waiting.set()
            self._termination.stop_all(self._state.broken, grace=STOP_GRACE_S)

    def take_in_enrolled(self) -> None:
        """Take in the cells that were enrolled or planned since, if there are any."""
        if self._scheduler.cells_enrolled:
            with contextlib.suppress(LedgerAway):  # then at a later look
                self._add_enrolled(self._options.more())
                self._scheduler.cells_enrolled = False

    def _give_up_ledger(self) -> None:
        """End the run if its ledger is away for too long and nothing runs here: outcomes are kept
        on disk. A runner that stays without a limit waits on."""
        stays = self._options.stays and self._options.idle_exit is None
        waits = stays or self._slots.any_busy or not self._ledger.keeps_outcomes
        if waits or self._state.ends or self._outage.seconds < AWAY_LIMIT_S:
            return
        self.gave_up = True
        minutes = f"{AWAY_LIMIT_S / 60:g} minutes"
        self._state.broken = f"the ledger was away for {minutes}; the next run sends what is kept"
        self._state.stop_waiting.set()
        self._ledger.interrupt()

    @property
    def stays(self) -> bool:
        """Whether it waits for cells although none is left."""
        if not self._options.stays or self._options.idle_exit is None:
            return self._options.stays
        if any(slot.waiting_claim or not slot.ready for slot in self._slots):
            self.note_work()
        return self._inbox.now() - self._worked_at < self._options.idle_exit

    def note_work(self) -> None:
        """A cell runs now."""
        self._worked_at = self._inbox.now()

    def _add_enrolled(self, cells: Sequence[Cell]) -> None:
        running = {
            str(slot.attempt.claim.lease.fingerprint) for slot in self._slots if slot.attempt
        }
        others = frozenset(self._options.yielded())
        yielded = others - running
        self._gates.learn(cells)
        if new := self._scheduler.add_cells(cells):
            self._scheduler.gates_decided = True
            self._state.add_cells(new)
            self._state.notify(
                "warning", message=f"{counted(len(new), 'cell', 'were')} enrolled since; taken in"
            )
        # One that runs here goes on; if it is released, it is for the others.
        if self._scheduler.hold_back("plan", others) or yielded != self._state.yielded:
            open_cells = sum(map(self._state.progress.is_open, yielded))
            self._state.yield_cells(yielded)
            if open_cells:
                theirs = counted(open_cells, "cell", "are")
                message = f"by a newer plan {theirs} for others, and left to them"
                self._state.notify("warning", message=message)

    def rest(self) -> None:
        """Look ever more seldom while there is nothing to do, and keep no model for nothing."""
        idle = not self._slots.any_busy and not self._scheduler.backlog.lanes()
        if self._backoff.see(self._inbox.now(), idle=idle):
            for slot in self._slots.idle:
                self._slots.retire(slot)
