"""The runner: one loop over one queue, which claims cells, places them on slots and ends them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.state import State
from benchfleet.errors import LedgerAway, LedgerError, LedgerUnreachable
from benchfleet.runner.build import Parts
from benchfleet.runner.events import Concluded, LedgerChanged, RunnerEvent
from benchfleet.runner.handlers import EventHandlers
from benchfleet.runner.progress import NoticeKind, Progress
from benchfleet.runner.recovery.rebuild import take_in_found
from benchfleet.runner.recovery.startup import (
    publish_what_was_committed,
    remove_what_came_too_late,
    remove_what_is_empty,
)
from benchfleet.runner.scheduler.eta import eta
from benchfleet.runner.worker_options import LOOK_EVERY

BURST = 5e-3  # seconds for which arrivals are taken in before idle slots claim together
HERD = 0.1  # seconds over which runners that heard the same look at the ledger
ETA_EVERY_S = 5e-3  # seconds for each slot, between two looks at how long it should still take


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """How a run ended."""

    progress: Progress
    seconds: float
    ran: int = 0  # attempts that ended in this run, well or badly
    interrupted: bool = False
    impossible: tuple[tuple[Cell, str], ...] = ()  # cells that no slot here can take, and why
    broken: str = ""  # why no slot could be started, where that ended the run
    unsent: int = 0  # results that are not at the campaign's place yet
    problem: str = ""  # why, where somebody knows
    counts_age: float = 0.0  # seconds since the ledger told of all cells, where it did not at last


class Runner:
    """Runs the chosen cells of a campaign until each has a final state, or it is interrupted.

    The ledger decides every claim; other runners on the same ledger share the work.
    """

    def __init__(self, parts: Parts) -> None:
        means, self._enrolled, self._shift = parts.means, parts.agenda.cells, parts.agenda.shift
        self._runner, self._ledger, self._engine = means.runner, means.ledger, means.engine
        self._inbox, self._layout, self._keeper = means.inbox, means.layout, means.keeper
        self._random, self._publish_all = means.random, parts.publish_all
        self._serving = parts.serving
        self._course, self._slots, self._devices = parts.course, parts.slots, parts.devices
        self._filler, self._gates, self._cells = parts.filler, parts.gates, parts.cells
        self._machines, self._orders = parts.machines, parts.orders
        self._autoscaler = parts.autoscaler
        self._handlers = EventHandlers(parts)
        self._stopping, self._hours, self._publisher = parts.stopping, parts.hours, parts.publisher
        self._next_look = 0.0
        self._claim_by: float | None = None  # when idle slots claim, whatever still arrives
        self._woke = False  # the look before was late
        self._waits_for = ""  # the runner that holds what is left
        self._told_kept_off: set[str] = set()

    def run(self) -> RunEnd:
        """Run to the end. Raises `LedgerUnreachable` when the ledger is gone."""
        began = self._course.progress.began = self._next_look = self._inbox.now()
        try:
            self._hours.begin(began)
            self._enroll()
            if self._shift.stays or self._gates.begin(began) or self._unfinished():
                self._filler.survey()
                self._tell_kept_off()
                self._filler.enrolled = self._shift.follows  # perhaps since it was looked at
                self._filler.decided = True
                self._keeper.start()
                self._orders.begin()
                self._course.see_room()
                self._autoscaler.look()
                self._serving.set()
                self._hours.keep()
                self._fill()
                while self._goes_on():
                    arrival = self._inbox.take(self._wait())
                    if arrival is not None:
                        self._handle(arrival)
                    if self._claims_now(quiet=arrival is None):
                        self._fill()
                    if self._inbox.now() >= self._next_look:
                        self._look()
        finally:
            self._course.ending.set()  # first: what waits for room is not to keep slots waiting
            self._engine.shutdown()
            self._let_publisher_end()
            self._keeper.stop()
            self._orders.end()
            with contextlib.suppress(LedgerUnreachable):  # then the leases run out by themselves
                self._ledger.release(self._keeper.held(), "its runner ended")
        counted, now = self._count_at_the_end(), self._inbox.now()
        seconds = now - began
        self._course.say("run_ended", seconds=seconds)
        return RunEnd(
            progress=self._course.progress,
            ran=self._cells.ran,
            interrupted=bool(self._course.interrupts),
            impossible=tuple(self._devices.impossible),
            broken=self._course.broken,
            seconds=seconds,
            counts_age=0.0 if counted else now - self._course.progress.counted,
        )

    def _count_at_the_end(self) -> bool:
        """Whether others' work shows too. A server that is away is waited for, unless the run was
        ended: nothing runs that would be kept from it. What is sent afterwards does not wait."""
        if (counted := self._course.count()) or self._course.over:
            return counted
        self._course.say("waiting", message="the ledger's server, to see how all cells ended")
        self._serving.clear()
        counted = self._course.count()
        self._serving.set()
        return counted

    def _let_publisher_end(self) -> None:
        """What is being sealed and finished is not to be released."""
        while self._publisher.under_way:
            if isinstance(arrival := self._inbox.take(LOOK_EVERY), Concluded):
                with contextlib.suppress(LedgerError):  # one such error ends the run already
                    self._cells.concluded(arrival)

    def _enroll(self) -> None:
        found = take_in_found(self._ledger, self._layout, self._enrolled, seen=self._taking_in)
        if self._shift.enrolls:
            self._ledger.enroll(self._enrolled)
        self._ledger.reap()
        self._course.count()
        self._course.progress.reused = self._course.progress.states.get("success", 0)
        self._course.say("run_started")
        if found.taken:
            results = counted(found.taken, "result")
            told = f"took in {results} from here that the ledger did not know of"
            self._course.say("warning", message=told)
        for path, why in found.refused:
            self._course.say("warning", cell=path, message=why)
        for late in publish_what_was_committed(
            self._ledger, self._layout, publish_all=self._publish_all
        ):
            kind: NoticeKind = "warning" if late.problem else "published_late"
            self._course.say(kind, cell=late.path, message=late.problem)
        remove_what_came_too_late(self._ledger, self._layout)
        remove_what_is_empty(self._layout)

    def _taking_in(self, done: int, of: int) -> None:
        """Show progress on a hosted repository, which takes some seconds for each batch."""
        if self._ledger.hosted:
            self._course.count()
            message = f"the ledger, to be told of results from here: {done} of {of}"
            self._course.say("waiting", message=message)

    def _tell_kept_off(self) -> None:
        """Say what is new of which cells machines may not have, and why."""
        for what in self._filler.kept_off():
            if what not in self._told_kept_off:
                self._course.say("kept_off", message=what)
            self._told_kept_off.add(what)

    # Between arrivals

    def _wait(self) -> float:
        """Seconds until something is to be done, whatever arrives."""
        return 0.0 if self._claim_by is not None else self._next_look - self._inbox.now()

    def _claims_now(self, *, quiet: bool) -> bool:
        """Whether idle slots claim now: all that arrived was taken in, or that takes too long."""
        return self._claim_by is not None and (quiet or self._inbox.now() >= self._claim_by)

    def _goes_on(self) -> bool:
        if self._publisher.under_way or self._slots.any_busy or self._claim_by is not None:
            return True
        if self._course.over:
            return False
        if self._shift.stays:
            return True
        if not self._slots.all_idle or self._unfinished():
            return True
        if not self._gates.any:
            return False
        self._filler.follow()
        self._gates.heed()
        if self._unfinished():
            self._fill()
            return True
        return self._gates.may_open(self._inbox.now(), ran=self._cells.ran)

    def _unfinished(self) -> bool:
        """Whether a cell is left that this runner could still see to its end."""
        states: Sequence[State] = ["pending", "running"]
        held = None
        try:
            for record in self._ledger.cells(states=states, among=self._devices.able):
                if record.state == "pending":
                    return True
                held = held or record
        except LedgerAway:
            return True
        if held is not None and held.runner not in ("", self._runner, self._waits_for):
            self._waits_for = held.runner
            self._course.count()
            told = f"runner {held.runner[:8]} holds it; were it dead, its lease runs out soon"
            self._course.say("waiting", cell=held.path, message=told)
        return held is not None

    def _look(self) -> None:
        """See to what nobody tells: leases that ran out, back-offs over, cells too slow."""
        late = self._inbox.now() - self._next_look
        self._next_look = self._inbox.now() + self._hours.pause
        # Suspended, or a slow disk: what is ours is not to be reaped. Nor is, in the first look,
        # what others hold: where the machine slept they are just waking up, too.
        waking = late > LOOK_EVERY or self._keeper.behind()
        if waking:
            self._keeper.renew()
        if not waking or self._woke:
            self._course.tell_reaped(self._ledger.reap())
        self._woke = waking
        self._stopping.end_expired(excused=late if late > LOOK_EVERY else 0.0)
        self._filler.follow()
        if self._filler.placed:
            self._tell_kept_off()
        self._cells.cancelling.look()
        self._course.see_room()
        self._machines.look()
        self._orders.look()
        self._autoscaler.look()
        self._hours.keep()
        self._gates.heed()
        self._fill()
        self._hours.rest()
        if self._hours.works:
            self._next_look = min(self._next_look, self._inbox.now() + LOOK_EVERY)
        self._update_eta()

    def _update_eta(self) -> None:
        """See how long it should still take: every second, and with very many slots more rarely,
        since what they all run is looked at."""
        now, progress = self._inbox.now(), self._course.progress
        wait = ETA_EVERY_S * len(self._slots)
        if progress.outlook is None or now - progress.outlook.at >= wait:
            progress.outlook = eta(self._filler.backlog, self._slots, now)

    def _fill(self) -> None:
        self._claim()
        self._claim_by = None

    def _claim(self) -> None:
        if self._course.over or self._course.short_of_room:
            return
        states, writing = self._course.progress.states, bool(self._publisher.under_way)
        if not self._gates.admits(states, writing=writing):
            return
        for slot in self._filler.fill():
            self._course.say("slot_opening", slot=slot.id, devices=slot.shown.devices)

    def _handle(self, event: RunnerEvent) -> None:
        has_room = not self._slots.any_busy or self._slots.any_idle
        if self._handlers.handle(event):
            self._claim_by = self._claim_by or self._inbox.now() + BURST
        elif isinstance(event, LedgerChanged) and has_room:
            # not all at once: many hear it
            self._next_look = min(self._next_look, self._inbox.now() + HERD * self._random())
