"""The runner: one loop over one queue, which claims cells, places them on slots and ends them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.humanize import duration
from benchfleet.domain.state import State
from benchfleet.errors import LedgerAway, LedgerError, LedgerUnreachable
from benchfleet.ledger.lease_holders import holders
from benchfleet.runner.build import RunnerComponents
from benchfleet.runner.events import AttemptWritten, LedgerChanged, RunnerEvent
from benchfleet.runner.handlers import EventHandlers
from benchfleet.runner.resources.impossible_report import ImpossibleReport
from benchfleet.runner.run_end import RunEnd
from benchfleet.runner.scheduler.eta import eta
from benchfleet.runner.worker_options import LOOK_EVERY_S

CLAIM_BATCH_S = 5e-3  # seconds for which arrivals are taken in before idle slots claim together
LOOK_JITTER_S = 0.1  # seconds over which runners spread their reads after the same notification
ETA_EVERY_S = 5e-3  # seconds for each slot, between two looks at how long it should still take


class Runner:
    """Runs the chosen cells of a campaign until each has a final state, or it is interrupted.

    The ledger decides every claim; other runners on the same ledger share the work.
    """

    def __init__(self, parts: RunnerComponents) -> None:
        context = parts.context
        self._start = parts.start
        self._options = parts.request.options
        self._runner, self._ledger, self._engine = context.runner, context.ledger, context.engine
        self._inbox = context.inbox
        self._heartbeat = context.heartbeat
        self._random = context.random
        self._serving = parts.serving
        self._state, self._slots, self._devices = parts.state, parts.slots, parts.devices
        progress = parts.state.progress
        self._impossible_report = ImpossibleReport(
            parts.devices, is_open=progress.is_open, is_waiting=progress.is_waiting
        )
        self._scheduler, self._gates = parts.scheduler, parts.gates
        self._lifecycle = parts.lifecycle
        self._host_lifecycle, self._commands = parts.host_lifecycle, parts.commands
        self._autoscaler = parts.autoscaler
        self._handlers = EventHandlers(parts)
        self._termination = parts.termination
        self._worker_time = parts.worker_time
        self._publisher = parts.publisher
        self._heartbeat.progress = lambda: self._state.progress.snapshot(
            self._runner, self._inbox.now()
        )
        self._next_look = 0.0
        self._claim_by: float | None = None  # when idle slots claim, whatever still arrives
        self._was_asleep = False  # the look before was late
        self._waits_for = ""  # the runner that holds what is left
        self._reported_exclusions: set[str] = set()

    def run(self) -> RunEnd:
        """Run to the end. Raises `LedgerUnreachable` when the ledger is gone."""
        began = self._state.progress.began = self._next_look = self._inbox.now()
        try:
            self._worker_time.begin(began)
            self._start.begin()
            if self._options.stays or self._gates.begin(began) or self._unfinished():
                self._scheduler.load_state()
                self._report_exclusions()
                # perhaps since it was looked at
                self._scheduler.cells_enrolled = self._options.follows
                self._scheduler.gates_decided = True
                self._heartbeat.start()
                self._commands.begin()
                self._state.check_disk()
                self._state.check_budget()
                self._autoscaler.look()
                self._serving.set()
                self._worker_time.keep()
                self._dispatch()
                while self._goes_on():
                    arrival = self._inbox.take(self._wait())
                    if arrival is not None:
                        self._handle(arrival)
                    if self._claims_now(quiet=arrival is None):
                        self._dispatch()
                    if self._inbox.now() >= self._next_look:
                        self._look()
        finally:
            self._state.stop_waiting.set()  # first: nothing may keep slots waiting
            self._engine.shutdown()
            self._drain_publisher()
            self._heartbeat.stop()
            self._commands.end()
            with contextlib.suppress(LedgerUnreachable):  # then the leases run out by themselves
                self._ledger.release(self._heartbeat.leases(), "its runner ended")
        counted, now = self._count_at_the_end(), self._inbox.now()
        seconds = now - began
        self._state.notify("run_ended", seconds=seconds)
        return RunEnd(
            progress=self._state.progress,
            ran=self._lifecycle.ran,
            interrupted=bool(self._state.interrupts),
            impossible=tuple(self._impossible_report.cells()),
            broken=self._state.broken,
            ledger_away=self._worker_time.gave_up,
            seconds=seconds,
            counts_age=0.0 if counted else now - self._state.progress.counted,
        )

    def _count_at_the_end(self) -> bool:
        """Whether others' work shows too. A server that is away is waited for, unless the run was
        ended: nothing runs that would be kept from it. What is sent afterwards does not wait."""
        if (counted := self._state.count()) or self._state.ends:
            return counted
        self._state.notify("waiting", message="the ledger's server, to see how all cells ended")
        self._serving.clear()
        counted = self._state.count()
        self._serving.set()
        return counted

    def _drain_publisher(self) -> None:
        """What is being sealed and finished is not to be released."""
        while self._publisher.under_way:
            if isinstance(arrival := self._inbox.take(LOOK_EVERY_S), AttemptWritten):
                with contextlib.suppress(LedgerError):  # one such error ends the run already
                    self._lifecycle.handle_written(arrival)

    def _report_exclusions(self) -> None:
        """Say what is new of which cells machines may not have, and why."""
        for what in self._scheduler.explain_exclusions():
            if what not in self._reported_exclusions:
                self._state.notify("kept_off", message=what)
            self._reported_exclusions.add(what)

    # Between arrivals

    def _wait(self) -> float:
        """Seconds until something is to be done, whatever arrives."""
        return 0.0 if self._claim_by is not None else self._next_look - self._inbox.now()

    def _claims_now(self, *, quiet: bool) -> bool:
        """Whether idle slots claim now: all that arrived was taken in, or that takes too long."""
        return self._claim_by is not None and (quiet or self._inbox.now() >= self._claim_by)

    def _goes_on(self) -> bool:
        if self._publisher.under_way or self._slots.any_busy or self._claim_by is not None:
            if self._slots.any_busy:
                self._worker_time.note_work()
            return True
        if self._state.ends:
            return False
        if self._options.stays:
            return self._worker_time.stays
        if not self._slots.all_idle or self._unfinished():
            return True
        if not self._gates.any:
            return False
        self._scheduler.follow()
        self._gates.refresh()
        if self._unfinished():
            self._dispatch()
            return True
        return self._gates.may_open(self._inbox.now(), ran=self._lifecycle.ran)

    def _unfinished(self) -> bool:
        """Whether a cell is left that this runner could still run or wait for."""
        states: Sequence[State] = ["pending", "running"]
        running = None
        try:
            for record in self._ledger.cells(states=states, fingerprints=self._devices.able):
                if record.state == "pending":
                    return True
                running = running or record
        except LedgerAway:
            return True
        if running is not None and running.runner not in ("", self._runner, self._waits_for):
            self._waits_for = running.runner
            self._state.count()
            self._state.notify("waiting", cell=running.path, message=self._holder_text(running))
        return running is not None

    def _holder_text(self, record: CellRecord) -> str:
        """Which other runner holds a cell, for how long, and the command that releases it."""
        host, runner = "", record.runner[:8]
        with contextlib.suppress(LedgerAway):
            host = next((one.host for one in holders(self._ledger, [record], ())), "")
        on, remaining = f" on {host}" if host else "", duration(max(record.expires_in or 0.0, 0.0))
        release = f"{self._options.release_command} --runner {runner}"
        return f"runner {runner}{on} holds it, lease good for {remaining}; if it is dead: {release}"

    def _look(self) -> None:
        """Handle what no event reports: expired leases, ended back-offs, timeouts."""
        late = self._inbox.now() - self._next_look
        self._next_look = self._inbox.now() + self._worker_time.pause
        # Suspended, or a slow disk: what is ours is not to be reaped. Nor is, in the first look,
        # what others hold: where the machine slept they are just waking up, too.
        waking = late > LOOK_EVERY_S or self._heartbeat.behind()
        if waking:
            self._heartbeat.renew()
        if not waking or self._was_asleep:
            self._state.report_reaped(self._ledger.reap())
        self._was_asleep = waking
        self._termination.end_expired(excused=late if late > LOOK_EVERY_S else 0.0)
        self._scheduler.follow()
        if self._scheduler.exclusions_changed:
            self._report_exclusions()
        self._lifecycle.cancellation.look()
        self._state.check_disk()
        if self._state.check_budget():  # spent by rented machines, which cost while cells run
            self._termination.stop_all(self._state.broken)
        self._host_lifecycle.look()
        if not self._state.broken:  # else its end says why
            for message in self._impossible_report.news():
                self._state.notify("blocked", message=message)
        self._commands.look()
        self._autoscaler.look()
        self._worker_time.keep()
        self._gates.refresh()
        self._scheduler.splitter.look()
        self._engine.expect(self._scheduler.needs())
        self._dispatch()
        if not self._state.broken:
            self._state.end_for_budget(self._scheduler.affordability.problem())
        self._worker_time.rest()
        if self._worker_time.works:
            self._next_look = min(self._next_look, self._inbox.now() + LOOK_EVERY_S)
        self._update_eta()

    def _update_eta(self) -> None:
        """See how long it should still take: every second, and with very many slots more rarely,
        since what they all run is looked at."""
        now, progress = self._inbox.now(), self._state.progress
        wait = ETA_EVERY_S * len(self._slots)
        if progress.eta is None or now - progress.eta.at >= wait:
            progress.eta = eta(self._scheduler.backlog, self._slots, now)

    def _dispatch(self) -> None:
        """Let idle slots claim, and open more slots."""
        self._claim_by = None
        if self._state.ends or self._state.short_of_disk:
            return
        self._worker_time.take_in_enrolled()  # a newer plan may leave waiting cells to others
        states, writing = self._state.progress.states, bool(self._publisher.under_way)
        if not self._gates.admits(states, writing=writing):
            return
        for slot in self._scheduler.dispatcher.take_turns(self._inbox.now()):
            self._state.notify("slot_opening", slot=slot.id, devices=slot.display.devices)

    def _handle(self, event: RunnerEvent) -> None:
        has_room = not self._slots.any_busy or self._slots.any_idle
        if self._handlers.handle(event):
            self._claim_by = self._claim_by or self._inbox.now() + CLAIM_BATCH_S
        elif isinstance(event, LedgerChanged) and has_room:
            # not all at once: many hear it
            self._next_look = min(
                self._next_look, self._inbox.now() + LOOK_JITTER_S * self._random()
            )
