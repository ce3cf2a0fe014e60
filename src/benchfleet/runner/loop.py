"""The runner: one loop over one queue, which claims cells, places them on slots and ends them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.engines.base import (
    AttemptEvent,
    Done,
    Engine,
    Failed,
    FileSent,
    Progressed,
    Recorded,
    SlotLost,
    SlotReady,
    Started,
    Stopped,
)
from benchfleet.errors import ClaimLost, LedgerUnreachable, ResultsError
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.runner.attempts import Attempt, Attempts, unwritable
from benchfleet.runner.inbox import Arrival, Inbox, Interrupted, LeaseLost
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.place import Pool, impossible
from benchfleet.runner.progress import Notice, NoticeKind, Observer, Progress
from benchfleet.runner.recover import publish_what_was_committed
from benchfleet.runner.slots import Slot, Slots, label

LOOK_EVERY = 1.0  # seconds between looks at what became claimable without an arrival
MAX_BAD_STARTS = 3  # slots in a row that never said hello before the run gives up


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """How a run ended."""

    progress: Progress
    seconds: float
    interrupted: bool = False
    impossible: tuple[tuple[Cell, str], ...] = ()  # cells that no slot here can take, and why
    broken: str = ""  # why no slot could be started, where that ended the run


class Runner:
    """Runs the chosen cells of a campaign until each has a final state, or it is interrupted.

    The ledger decides every claim; other runners on the same ledger share the work. Time comes
    from the inbox, so that the same loop runs against a simulated fleet.
    """

    def __init__(
        self,
        *,
        runner: RunnerId,
        ledger: Ledger,
        engine: Engine,
        inbox: Inbox,
        layout: Layout,
        pool: Pool,
        cells: Sequence[Cell],
        observer: Observer,
        keeper: LeaseKeeper,
        provenance: Mapping[str, Any],
        random: Callable[[], float],
    ) -> None:
        self._runner, self._ledger, self._engine, self._inbox = runner, ledger, engine, inbox
        self._layout, self._observer, self._keeper = layout, observer, keeper
        self._cells = {str(cell.fingerprint): cell for cell in cells}
        self._all = frozenset(self._cells)
        self._impossible = [(cell, why) for cell in cells if (why := impossible(cell, pool))]
        barred = {str(cell.fingerprint) for cell, _ in self._impossible}
        self._able = self._all - barred
        widths = {max(1, self._cells[f].need.gpus) for f in self._able}
        self._among = {
            width: frozenset(f for f in self._able if max(1, self._cells[f].need.gpus) == width)
            for width in sorted(widths, reverse=True)
        }
        self._progress = Progress(total=len(self._cells))
        self._slots = Slots(runner[:8], engine, pool, layout, self._progress)
        self._attempts = Attempts(ledger, layout, keeper, provenance=provenance, random=random)
        self._next_look = 0.0
        self._interrupts = 0
        self._bad_starts = 0
        self._broken = ""
        self._waits_for = ""

    def run(self) -> RunEnd:
        """Run to the end. Raises `LedgerUnreachable` when the ledger is gone."""
        began = self._progress.began = self._inbox.now()
        self._enroll()
        try:
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
            self._keeper.stop()
            with contextlib.suppress(LedgerUnreachable):  # then the leases run out by themselves
                self._ledger.release(self._keeper.held(), "its runner ended")
        self._count()
        seconds = self._inbox.now() - began
        self._say("run_ended", seconds=seconds)
        return RunEnd(
            progress=self._progress,
            interrupted=bool(self._interrupts),
            impossible=tuple(self._impossible),
            broken=self._broken,
            seconds=seconds,
        )

    def _enroll(self) -> None:
        self._ledger.enroll(self._cells.values())
        self._ledger.reap()
        self._count()
        self._progress.reused = self._progress.states.get("success", 0)
        self._say("run_started")
        for path in publish_what_was_committed(self._ledger, self._layout):
            self._say("published_late", cell=path)

    def _count(self) -> None:
        """Take the counts from the ledger, where other runners' work shows too."""
        self._progress.states.clear()
        for record in self._ledger.cells(among=self._all):
            self._progress.states[record.state] = self._progress.states.get(record.state, 0) + 1

    # Between arrivals

    def _goes_on(self) -> bool:
        if any(slot.attempt for slot in self._slots):
            return True
        if self._broken or self._interrupts:
            return False
        return any(not slot.idle for slot in self._slots) or self._unfinished()

    def _unfinished(self) -> bool:
        """Whether a cell is left that this runner could still see to its end."""
        for record in self._ledger.cells(states=["pending", "running"], among=self._able):
            if record.runner not in ("", self._runner, self._waits_for):
                self._waits_for = record.runner
                self._say("waiting", cell=record.path, message=f"runner {record.runner} holds it")
            return True
        return False

    def _look(self) -> None:
        """See to what nobody tells: leases that ran out, back-offs over, cells too slow."""
        self._next_look = self._inbox.now() + LOOK_EVERY
        for fingerprint in self._ledger.reap():
            self._say("warning", message=f"the lease of {fingerprint[:8]} ran out; taken back")
        for slot in self._slots:
            attempt = slot.attempt
            limit = attempt.claim.cell.limits.cell if attempt else None
            if attempt and limit is not None and self._inbox.now() - attempt.began > limit:
                why = f"it ran longer than its limit of {limit:g} s"
                self._slots.kill(slot)
                self._fail(attempt, "benchmark", "timeout", why)
        self._fill()

    # Claiming and placing

    def _fill(self) -> None:
        """Give every idle slot a cell, and open slots while there is room and work: the widest
        first, since they need whole devices."""
        if self._interrupts or self._broken:
            return
        for width, among in self._among.items():
            if all(self._claim_for(slot, among) for slot in self._slots if self._is(slot, width)):
                self._open_more(width, among)
            elif width > min(self._among):
                for slot in self._slots:
                    if self._is(slot, width):
                        self._slots.retire(slot)

    @staticmethod
    def _is(slot: Slot, width: int) -> bool:
        return slot.idle and slot.width == width

    def _claim_for(self, slot: Slot, among: frozenset[str]) -> bool:
        """Claim a cell for an idle slot; False where the ledger has none for it."""
        for claim in self._ledger.claim(self._runner, slot.offer(among), 1):
            self._progress.move("pending", "running")
            if claim.cell.model.python == slot.spec.python:
                self._begin(slot, claim)
            else:  # it wants another interpreter: a new slot on these devices takes it
                self._keeper.hold(claim.lease)
                slot.reserved = claim
                self._slots.retire(slot)
            return True
        return False

    def _open_more(self, width: int, among: frozenset[str]) -> None:
        """Open slots of one width while there is room, never more than cells wait for."""
        devices = self._slots.room_for(width)
        if devices is None:
            return
        records = self._ledger.cells(states=["pending"], among=among)
        waiting = sum(record.ready_in <= 0 for record in records)
        waiting -= sum(slot.width == width and not slot.ready for slot in self._slots)
        while devices is not None and waiting > 0:
            slot = self._slots.open(devices, width)
            self._say("slot_opening", slot=slot.id, devices=slot.shown.devices)
            waiting -= 1
            devices = self._slots.room_for(width)

    def _begin(self, slot: Slot, claim: Claim) -> None:
        self._slots.start(slot, self._attempt(slot, claim))
        self._say("cell_started", cell=claim.path, slot=slot.id, attempt=claim.lease.attempt)

    def _attempt(self, slot: Slot, claim: Claim) -> Attempt:
        device, now = label(slot.spec.devices), self._inbox.now()
        return self._attempts.begin(claim, host=socket.gethostname(), device=device, now=now)

    # What arrives

    def _handle(self, arrival: Arrival) -> None:
        if isinstance(arrival, Interrupted):
            self._interrupt(arrival)
        elif isinstance(arrival, LeaseLost):
            self._lose(arrival)
        elif (slot := self._slots.get(arrival.slot)) is None:
            return
        elif isinstance(arrival, SlotReady):
            self._slot_ready(slot, arrival)
        elif isinstance(arrival, SlotLost):
            self._slot_lost(slot, arrival)
        elif (
            isinstance(arrival, AttemptEvent)
            and slot.attempt is not None
            and slot.attempt.key == arrival.attempt
        ):
            self._attempt_event(slot, slot.attempt, arrival)

    def _attempt_event(self, slot: Slot, attempt: Attempt, event: AttemptEvent) -> None:
        if isinstance(event, (Recorded, FileSent)):
            self._keep(slot, attempt, event)
        elif isinstance(event, Started):
            attempt.stage = "load" if event.stage == "load" else "benchmark"
            slot.shown.stage = event.stage
            self._say("cell_progress", cell=attempt.claim.path, slot=slot.id)
        elif isinstance(event, Progressed):
            slot.shown.done, slot.shown.total = event.done, event.total
        elif isinstance(event, Done):
            slot.free()
            self._fill()  # the slot computes on while this runner writes and syncs
            self._end(attempt, lambda: self._attempts.succeed(attempt, event))
        elif isinstance(event, Failed):
            slot.free()
            slot.closing = not event.fit
            slot.load_key = "" if event.failure.stage == "load" else slot.load_key
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

    def _slot_ready(self, slot: Slot, event: SlotReady) -> None:
        slot.ready = True
        self._bad_starts = 0
        slot.shown.rest()
        self._say("slot_ready", slot=slot.id, hello=event.hello)
        if slot.reserved is not None:
            claim, slot.reserved = slot.reserved, None
            self._begin(slot, claim)
        self._fill()

    def _slot_lost(self, slot: Slot, event: SlotLost) -> None:
        self._slots.gone(slot)
        if not event.expected:
            self._say("slot_lost", slot=slot.id, message=event.reason)
        why = f"its slot ended: {event.reason}"
        if slot.attempt is not None:
            self._fail(slot.attempt, slot.attempt.stage, "slot_lost", why)
        elif slot.reserved is not None and slot.ready:
            self._slots.open(slot.spec.devices, slot.width, reserved=slot.reserved)
        elif slot.reserved is not None:
            attempt = self._attempt(slot, slot.reserved)
            self._fail(attempt, "setup", "slot_lost", f"no slot with {slot.spec.python!r}: {why}")
        elif not slot.ready and not event.expected:
            self._bad_starts += 1
            if self._bad_starts >= MAX_BAD_STARTS:
                self._broken = f"slots do not start ({event.reason}); see {slot.spec.log}"
        self._fill()

    def _interrupt(self, event: Interrupted) -> None:
        self._interrupts += 1
        busy = [(slot, slot.attempt) for slot in self._slots if slot.attempt is not None]
        for slot, attempt in busy:
            if self._interrupts == 1:
                self._engine.stop(slot.id, attempt.key)
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

    def _fail(self, attempt: Attempt, stage: Any, kind: Any, message: str) -> None:
        """End an attempt with a failure that its slot could not tell."""
        failure = Failure(stage=stage, kind=kind, message=message, retryable=True)
        seconds = {stage: self._inbox.now() - attempt.began}
        self._end(attempt, lambda: self._attempts.fail(attempt, failure, seconds))

    def _end(self, attempt: Attempt, conclude: Callable[[], Outcome]) -> None:
        path, took = attempt.claim.path, self._inbox.now() - attempt.began
        try:
            outcome = conclude()
        except ClaimLost:
            self._abandon(attempt)
            return
        except ResultsError as error:
            self._progress.move("running", "success")
            self._say("warning", cell=path, message=str(error))
            return
        self._progress.move("running", "pending" if outcome.retry_in is not None else outcome.state)
        if outcome.failure is None:
            self._progress.spent.append(took)
            self._say("cell_done", cell=path, took=took, metrics=outcome.metrics)
        else:
            self._say(
                "cell_failed",
                cell=path,
                message=str(outcome.failure),
                retry_in=outcome.retry_in,
                attempt=attempt.claim.lease.attempt,
            )

    def _give_back(self, attempt: Attempt, reason: str) -> None:
        self._attempts.give_back(attempt, reason)
        self._progress.move("running", "pending")
        self._say("cell_released", cell=attempt.claim.path, message=reason, samples=attempt.done)

    def _abandon(self, attempt: Attempt) -> None:
        self._attempts.abandon(attempt)
        self._progress.move("running", "pending")
        self._say("claim_lost", cell=attempt.claim.path, message="another runner holds it now")

    def _say(
        self, kind: NoticeKind, *, cell: str = "", slot: str = "", message: str = "", **data: Any
    ) -> None:
        notice = Notice(kind=kind, cell=cell, slot=slot, message=message, data=data)
        self._observer(notice, self._progress)
