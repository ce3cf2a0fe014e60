"""The runner: one loop over one queue, which claims cells, places them on slots and ends them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure, Kind, Stage
from benchfleet.engines.base import (
    AttemptEvent,
    Done,
    Engine,
    Failed,
    FileSent,
    HostLost,
    HostReady,
    Progressed,
    Recorded,
    SlotEvent,
    SlotLost,
    SlotReady,
    Started,
    Stopped,
)
from benchfleet.errors import ClaimLost, LedgerError, LedgerUnreachable, ResultsError
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.runner.attempts import Attempt, Attempts, unwritable
from benchfleet.runner.fill import Filler
from benchfleet.runner.hosts import PATIENCE, Hosts
from benchfleet.runner.inbox import Arrival, Broken, Concluded, Inbox, Interrupted, LeaseLost
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.place import Pool
from benchfleet.runner.progress import Notice, NoticeKind, Observer, Progress
from benchfleet.runner.recover import publish_what_was_committed
from benchfleet.runner.slots import Slot, Slots, label

LOOK_EVERY = 1.0  # seconds between looks at what became claimable without an arrival


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """How a run ended."""

    progress: Progress
    seconds: float
    ran: int = 0  # attempts that ended in this run, well or badly
    interrupted: bool = False
    impossible: tuple[tuple[Cell, str], ...] = ()  # cells that no slot here can take, and why
    broken: str = ""  # why no slot could be started, where that ended the run


class Runner:
    """Runs the chosen cells of a campaign until each has a final state, or it is interrupted.

    The ledger decides every claim; other runners on the same ledger share the work. Time comes
    from the inbox, so that the same loop runs against a simulated fleet. Results are written and
    synced by `background`, which runs what it is given soon, here or in another thread.
    """

    def __init__(
        self,
        *,
        runner: RunnerId,
        ledger: Ledger,
        engine: Engine,
        inbox: Inbox,
        layout: Layout,
        pools: Sequence[Pool],
        cells: Sequence[Cell],
        observer: Observer,
        keeper: LeaseKeeper,
        provenance: Callable[[], Mapping[str, Any]],
        random: Callable[[], float],
        background: Callable[[Callable[[], None]], object],
    ) -> None:
        self._runner, self._ledger, self._engine, self._inbox = runner, ledger, engine, inbox
        self._layout, self._observer, self._keeper = layout, observer, keeper
        self._all = frozenset(str(cell.fingerprint) for cell in cells)
        self._enrolled = cells
        self._progress = Progress(total=len(self._all))
        self._slots = Slots(runner[:8], engine, layout, self._progress)
        self._hosts = Hosts(engine.hosts())
        self._filler = Filler(
            runner=runner,
            ledger=ledger,
            keeper=keeper,
            slots=self._slots,
            pools=pools,
            hosts=self._hosts,
            cells=cells,
            begin=self._begin,
        )
        self._attempts = Attempts(ledger, layout, keeper, provenance=provenance, random=random)
        self._background = background
        self._concluding = 0  # attempts that are being written
        self._ran = 0
        self._next_look = 0.0
        self._last_slot = 0.0  # when one was open last, on the inbox's clock
        self._interrupts = 0
        self._broken = ""
        self._waits_for = ""

    def run(self) -> RunEnd:
        """Run to the end. Raises `LedgerUnreachable` when the ledger is gone."""
        began = self._progress.began = self._last_slot = self._inbox.now()
        try:
            self._enroll()
            if self._unfinished():
                self._keeper.start()
                self._fill()
                while self._goes_on():
                    arrival = self._inbox.take(self._next_look - self._inbox.now())
                    if arrival is not None:
                        self._handle(arrival)
                    if self._inbox.now() >= self._next_look:
                        self._look()
        finally:
            self._engine.shutdown()
            self._let_writers_end()
            self._keeper.stop()
            with contextlib.suppress(LedgerUnreachable):  # then the leases run out by themselves
                self._ledger.release(self._keeper.held(), "its runner ended")
        if self._ran:
            self._count()
        seconds = self._inbox.now() - began
        self._say("run_ended", seconds=seconds)
        return RunEnd(
            progress=self._progress,
            ran=self._ran,
            interrupted=bool(self._interrupts),
            impossible=tuple(self._filler.impossible),
            broken=self._broken,
            seconds=seconds,
        )

    def _let_writers_end(self) -> None:
        """What is being sealed and finished is not to be released."""
        while self._concluding:
            if isinstance(arrival := self._inbox.take(LOOK_EVERY), Concluded):
                with contextlib.suppress(LedgerError):  # one such error ends the run already
                    self._concluded(arrival)

    def _enroll(self) -> None:
        self._ledger.enroll(self._enrolled)
        self._ledger.reap()
        self._count()
        self._progress.reused = self._progress.states.get("success", 0)
        self._say("run_started")
        for found in publish_what_was_committed(self._ledger, self._layout):
            kind: NoticeKind = "warning" if found.problem else "published_late"
            self._say(kind, cell=found.path, message=found.problem)

    def _count(self) -> None:
        """Take the counts from the ledger, where other runners' work shows too."""
        self._progress.states.clear()
        for record in self._ledger.cells(among=self._all):
            self._progress.states[record.state] = self._progress.states.get(record.state, 0) + 1

    # Between arrivals

    def _goes_on(self) -> bool:
        if self._concluding or any(slot.attempt for slot in self._slots):
            return True
        if self._broken or self._interrupts:
            return False
        return any(not slot.idle for slot in self._slots) or self._unfinished()

    def _unfinished(self) -> bool:
        """Whether a cell is left that this runner could still see to its end."""
        for record in self._ledger.cells(states=["pending", "running"], among=self._filler.able):
            if record.runner not in ("", self._runner, self._waits_for):
                self._waits_for = record.runner
                self._count()
                self._say("waiting", cell=record.path, message=f"runner {record.runner} holds it")
            return True
        return False

    def _look(self) -> None:
        """See to what nobody tells: leases that ran out, back-offs over, cells too slow."""
        late = self._inbox.now() - self._next_look
        self._next_look = self._inbox.now() + LOOK_EVERY
        if late > LOOK_EVERY:  # suspended, or a slow disk: what is ours is not to be reaped
            self._keeper.renew()
        for fingerprint in self._ledger.reap():
            self._say("warning", message=f"the lease of {fingerprint[:8]} ran out; taken back")
        for slot in self._slots:
            attempt = slot.attempt
            limit = attempt.claim.cell.limits.cell if attempt else None
            if attempt and limit is not None and self._inbox.now() - attempt.began > limit:
                why = f"it ran longer than its limit of {limit:g} s"
                self._slots.kill(slot)
                self._fail(attempt, attempt.stage, "timeout", why)
        if any(self._slots):
            self._last_slot = self._inbox.now()
        elif self._hosts.expecting and self._inbox.now() - self._last_slot > PATIENCE:
            self._broken = f"no machine came within {PATIENCE:g} s ({self._hosts.why})"
        self._fill()

    # Claiming and placing

    def _fill(self) -> None:
        if self._interrupts or self._broken:
            return
        for slot in self._filler.fill():
            self._say("slot_opening", slot=slot.id, devices=slot.shown.devices)

    def _begin(self, slot: Slot, claim: Claim) -> None:
        attempt = self._attempt(slot, claim)
        if attempt is not None:
            self._slots.start(slot, attempt)
            self._say("cell_started", cell=claim.path, slot=slot.id, attempt=claim.lease.attempt)

    def _attempt(self, slot: Slot, claim: Claim) -> Attempt | None:
        """An attempt with its folder; None where that cannot be made, which ends the run."""
        try:
            return self._attempts.begin(
                claim,
                host=slot.spec.host or socket.gethostname(),
                device=label(slot.spec.devices),
                now=self._inbox.now(),
                provenance=self._hosts.provenance(slot.spec.host),
            )
        except OSError as error:
            self._let_go(claim, f"its folder cannot be made: {error}")
            self._broken = f"results cannot be written: {error}"
            return None

    # What arrives

    def _handle(self, arrival: Arrival) -> None:
        if isinstance(arrival, Interrupted):
            self._interrupt(arrival)
        elif isinstance(arrival, LeaseLost):
            self._lose(arrival)
        elif isinstance(arrival, Concluded):
            self._concluded(arrival)
        elif isinstance(arrival, Broken):
            raise arrival.error
        elif isinstance(arrival, HostReady):
            self._host_ready(arrival)
        elif isinstance(arrival, HostLost):
            self._host_lost(arrival)
        elif isinstance(arrival, SlotEvent):
            self._slot_event(arrival)

    def _slot_event(self, event: SlotEvent) -> None:
        if (slot := self._slots.get(event.slot)) is None:
            return
        if isinstance(event, SlotReady):
            self._slot_ready(slot, event)
        elif isinstance(event, SlotLost):
            self._slot_lost(slot, event)
        elif (
            isinstance(event, AttemptEvent)
            and slot.attempt is not None
            and slot.attempt.key == event.attempt
        ):
            self._attempt_event(slot, slot.attempt, event)

    def _attempt_event(self, slot: Slot, attempt: Attempt, event: AttemptEvent) -> None:
        if isinstance(event, (Recorded, FileSent)):
            self._keep(slot, attempt, event)
        elif isinstance(event, Started):
            attempt.stage = event.stage
            slot.shown.stage = event.stage
            self._say("cell_progress", cell=attempt.claim.path, slot=slot.id)
        elif isinstance(event, Progressed):
            slot.shown.done, slot.shown.total = event.done, event.total
        elif isinstance(event, Done):
            slot.free()
            self._end(attempt, lambda: self._attempts.succeed(attempt, event))
            self._fill()
        elif isinstance(event, Failed):
            slot.free()
            slot.closing = not event.fit
            slot.forget_model_after(event.failure)
            failure, seconds = event.failure, event.seconds
            self._end(attempt, lambda: self._attempts.fail(attempt, failure, seconds))
            self._fill()
        elif isinstance(event, Stopped):
            slot.free()
            slot.closing = not event.fit
            self._give_back(attempt, event.reason)
            self._fill()

    def _keep(self, slot: Slot, attempt: Attempt, event: Recorded | FileSent) -> None:
        try:
            if isinstance(event, FileSent):
                attempt.folder.append(event.name, event.data)
                return
            attempt.folder.record(event.lines)
        except (OSError, ResultsError) as error:
            failure = unwritable(error)
            self._slots.kill(slot)
            self._end(attempt, lambda: self._attempts.fail(attempt, failure, {}))
            return
        attempt.done = slot.shown.done = event.done
        slot.shown.total = event.total
        self._say("cell_progress", cell=attempt.claim.path, slot=slot.id)

    def _host_ready(self, event: HostReady) -> None:
        pool = Pool(devices=event.devices, slots=event.slots, threads=event.threads)
        self._hosts.ready(event)
        self._filler.add(pool)
        shown = ", ".join(device.label for device in event.devices)
        self._say("host_ready", host=event.host, slots=event.slots, devices=shown)
        self._fill()

    def _host_lost(self, event: HostLost) -> None:
        self._hosts.lost(event)
        self._filler.remove(event.host)
        self._say("host_lost", host=event.host, message=event.reason, hopeless=event.hopeless)
        if not self._filler.able:
            self._broken = f"no machine can be used ({self._hosts.why})"

    def _slot_ready(self, slot: Slot, event: SlotReady) -> None:
        slot.ready = True
        self._filler.started_well(slot)
        slot.shown.rest()
        self._say("slot_ready", slot=slot.id, hello=event.hello)
        claim, slot.reserved = slot.reserved, None
        if claim is not None:
            if self._interrupts or self._broken:
                self._let_go(claim, "its runner ends")
            else:
                self._begin(slot, claim)
        self._fill()

    def _slot_lost(self, slot: Slot, event: SlotLost) -> None:
        self._slots.gone(slot)
        if not event.expected:
            self._say("slot_lost", slot=slot.id, message=event.reason)
        why = f"its slot ended: {event.reason}"
        if slot.attempt is not None:
            kind: Kind = "host_lost" if event.host_lost else "slot_lost"
            self._fail(slot.attempt, slot.attempt.stage, kind, why)
        elif slot.reserved is not None and (self._interrupts or self._broken):
            self._let_go(slot.reserved, "its runner ends")
        elif slot.reserved is not None and event.host_lost:
            self._let_go(slot.reserved, why)
        elif slot.reserved is not None and slot.ready:
            self._slots.open(slot.spec.devices, slot.width, reserved=slot.reserved)
        elif slot.reserved is not None:
            self._fail_unstarted(slot, slot.reserved, why)
        elif event.host_lost:
            pass  # nothing is wrong with its devices
        elif not slot.ready and not event.expected and self._filler.started_badly(slot):
            out = f"{slot.shown.devices} is left out: slots do not start there ({event.reason})"
            self._say("warning", message=f"{out}; see {slot.spec.log}")
            if not self._filler.able:
                self._broken = f"slots do not start ({event.reason}); see {slot.spec.log}"
        self._fill()

    def _fail_unstarted(self, slot: Slot, claim: Claim, why: str) -> None:
        """The interpreter that a cell asks for does not start."""
        attempt = self._attempt(slot, claim)
        if attempt is not None:
            self._fail(attempt, "setup", "slot_lost", f"no slot with {slot.spec.python!r}: {why}")

    def _let_go(self, claim: Claim, reason: str) -> None:
        """Give back a cell that was claimed and never begun."""
        self._keeper.drop(claim.lease)
        self._ledger.release([claim.lease], reason)
        self._progress.move("running", "pending")

    def _interrupt(self, event: Interrupted) -> None:
        self._interrupts += 1
        busy = [(slot, slot.attempt) for slot in self._slots if slot.attempt is not None]
        for slot, attempt in busy:
            if self._interrupts == 1 and attempt.stage == "benchmark":
                self._engine.stop(slot.id, attempt.key)
            elif self._interrupts == 1:  # it only loads: nothing is lost by ending it now
                self._slots.kill(slot)
                self._give_back(attempt, event.signal)
            else:
                self._slots.kill(slot)
                self._give_back(attempt, f"{event.signal} twice")
        self._say("interrupted", message=event.signal, times=self._interrupts, cells=len(busy))

    def _lose(self, event: LeaseLost) -> None:
        for slot in self._slots:
            attempt = slot.attempt
            if attempt is not None and attempt.claim.lease == event.lease:
                self._slots.kill(slot)
                self._abandon(attempt)

    # How attempts end

    def _fail(self, attempt: Attempt, stage: Stage, kind: Kind, message: str) -> None:
        """End an attempt with a failure that its slot could not tell."""
        failure = Failure(stage=stage, kind=kind, message=message, retryable=True)
        seconds: Mapping[str, float] = {stage: self._inbox.now() - attempt.began}
        self._end(attempt, lambda: self._attempts.fail(attempt, failure, seconds))

    def _end(self, attempt: Attempt, conclude: Callable[[], Outcome]) -> None:
        """Have the attempt written and finished while its slot computes on."""
        took = self._inbox.now() - attempt.began
        self._concluding += 1

        def work() -> None:
            try:
                concluded = Concluded(attempt=attempt, took=took, outcome=conclude())
            except Exception as error:  # noqa: BLE001 - the loop judges it, in its own thread
                concluded = Concluded(attempt=attempt, took=took, error=error)
            self._inbox.post(concluded)

        self._background(work)

    def _concluded(self, event: Concluded) -> None:
        self._concluding -= 1
        self._ran += 1
        attempt, outcome, path = event.attempt, event.outcome, event.attempt.claim.path
        if isinstance(event.error, ClaimLost):
            self._abandon(attempt)
        elif isinstance(event.error, ResultsError):
            self._progress.move("running", "success")
            self._say("warning", cell=path, message=str(event.error))
        elif event.error is not None:
            raise event.error
        elif outcome is not None and outcome.failure is None:
            self._progress.move("running", outcome.state)
            self._progress.spent.append(event.took)
            self._say("cell_done", cell=path, took=event.took, metrics=outcome.metrics)
        elif outcome is not None:
            again = outcome.retry_in
            if outcome.failure is not None and outcome.failure.kind == "disk_full":
                self._broken = "the disk is full; make room and run again"
            self._progress.move("running", outcome.state if again is None else "pending")
            self._say(
                "cell_failed",
                cell=path,
                message=str(outcome.failure),
                retry_in=again,
                attempt=attempt.claim.lease.attempt,
            )
            self._fill()

    def _give_back(self, attempt: Attempt, reason: str) -> None:
        self._attempts.give_back(attempt, reason)
        self._progress.move("running", "pending")
        self._say("cell_released", cell=attempt.claim.path, message=reason, samples=attempt.done)

    def _abandon(self, attempt: Attempt) -> None:
        self._attempts.abandon(attempt)
        self._count()
        self._say("claim_lost", cell=attempt.claim.path, message="another runner holds it now")

    def _say(
        self, kind: NoticeKind, *, cell: str = "", slot: str = "", message: str = "", **data: Any
    ) -> None:
        notice = Notice(kind=kind, cell=cell, slot=slot, message=message, data=data)
        self._observer(notice, self._progress)
