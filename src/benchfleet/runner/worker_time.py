"""Keeping a runner to its shift: its time, what it is about, and how it rests."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.errors import LedgerAway
from benchfleet.runner.events import EventQueue
from benchfleet.runner.execution.termination import Stopping
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.run_state import Course
from benchfleet.runner.scheduler.gate_watcher import Gatekeeper
from benchfleet.runner.scheduler.scheduler import Filler
from benchfleet.runner.worker_options import GRACE, LOOK_EVERY, Rest, Shift


class Hours:
    """Sees to the shift of one runner."""

    def __init__(
        self,
        shift: Shift,
        *,
        inbox: EventQueue,
        course: Course,
        slots: Slots,
        filler: Filler,
        gates: Gatekeeper,
        stopping: Stopping,
    ) -> None:
        self._shift, self._inbox = shift, inbox
        self._course, self._slots, self._filler = course, slots, filler
        self._gates, self._stopping = gates, stopping
        self._rest = Rest(stays=shift.stays, least=LOOK_EVERY)
        self._until: float | None = None
        self._time_is_up = False

    def begin(self, now: float) -> None:
        """Its time begins."""
        if self._shift.seconds is not None:
            self._until = now + self._shift.seconds

    @property
    def pause(self) -> float:
        """Seconds between two looks."""
        return self._rest.pause

    @property
    def works(self) -> bool:
        """Whether it looks as often as it ever does."""
        return self._rest.pause == LOOK_EVERY

    @property
    def left(self) -> float | None:
        """Seconds; None where it stays for as long as there is work."""
        return None if self._until is None else self._until - self._inbox.now()

    def keep(self) -> None:
        """Take in what was enrolled since, and see to the end of this runner's time."""
        if self._filler.enrolled:
            with contextlib.suppress(LedgerAway):  # then at a later look
                self._take_in(self._shift.more())
        if (left := self.left) is None:
            return
        self._filler.leave_out(left)
        if left <= 0 and not self._time_is_up:
            self._time_is_up = True
            self._course.broken = self._course.broken or "the time of this runner is over"
            self._course.ending.set()
            self._stopping.stop_all(self._course.broken)
        elif left < -GRACE:
            self._stopping.kill_all(self._course.broken)

    def _take_in(self, cells: Sequence[Cell]) -> None:
        running = {
            str(slot.attempt.claim.lease.fingerprint) for slot in self._slots if slot.attempt
        }
        given_up = frozenset(self._shift.given_up()) - running
        self._gates.learn(cells, given_up)
        if new := self._filler.take_in(cells):
            self._filler.decided = True
            self._course.take_in(new)
            self._course.say(
                "warning", message=f"{counted(len(new), 'cell', 'were')} enrolled since; taken in"
            )
        if self._filler.give_up(given_up):
            self._course.give_up(given_up)
            theirs = counted(len(given_up), "cell", "are")
            message = f"by a newer plan {theirs} for others, and left to them"
            self._course.say("warning", message=message)

    def rest(self) -> None:
        """Look ever more seldom while there is nothing to do, and keep no model for nothing."""
        idle = not self._slots.any_busy and not self._filler.backlog.lanes()
        if self._rest.see(self._inbox.now(), idle=idle):
            for slot in self._slots.idle:
                self._slots.retire(slot)
