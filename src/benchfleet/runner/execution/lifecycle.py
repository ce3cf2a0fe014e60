"""The lifecycle of attempts: begin on a slot, record samples, end or release."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from benchfleet.domain.attempt import Claim, Outcome
from benchfleet.domain.failure import Failure, Kind, Stage
from benchfleet.domain.state import State
from benchfleet.engines.base import (
    AttemptEvent,
    Checkpointed,
    Done,
    Failed,
    FileSent,
    Measured,
    Progressed,
    Recorded,
    Started,
    Stopped,
    Warned,
)
from benchfleet.errors import ClaimLost, LedgerAway, LedgerFull, ResultsError
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.events import AttemptWritten
from benchfleet.runner.execution.attempt_recorder import AttemptRecorder, unwritable
from benchfleet.runner.execution.cancellation import Cancellation
from benchfleet.runner.execution.publisher import Publisher
from benchfleet.runner.resources.gpu_sharing import GpuSharing
from benchfleet.runner.resources.hosts import Hosts
from benchfleet.runner.resources.slot import Slot, label
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.run_state import RunState
from benchfleet.runner.scheduler.scheduler import Scheduler
from benchfleet.runner.worker_options import SIGNAL_SPREAD_S


class AttemptLifecycle:
    """Begins the attempts of one runner, records what their slots send, and ends them.

    An attempt ends in four ways: it succeeds or fails (`_submit`, then `handle_written`
    once it is written), its cell is released (`give_back`), or its claim is lost (`abandon`).
    """

    def __init__(
        self,
        context: RunnerContext,
        *,
        state: RunState,
        slots: Slots,
        hosts: Hosts,
        scheduler: Scheduler,
        recorder: AttemptRecorder,
        publisher: Publisher,
        batch_job: bool = False,
    ) -> None:
        self._batch_job = batch_job
        self._ledger = context.ledger
        self._inbox = context.inbox
        self._heartbeat = context.heartbeat
        self._state, self._slots, self._hosts, self._scheduler = state, slots, hosts, scheduler
        self._recorder, self._publisher = recorder, publisher
        self._gpu_sharing = GpuSharing()
        self._host_name = context.local_host.host or socket.gethostname()
        self.cancellation = Cancellation(context, slots)
        self.ran = 0  # attempts that ended, well or badly

    def begin(self, slot: Slot, claim: Claim) -> None:
        """Begin an attempt at a claimed cell."""
        attempt = self.make(slot, claim)
        if attempt is not None:
            self._slots.start(slot, attempt)
            self._gpu_sharing.began(slot)
            self._state.notify(
                "cell_started", cell=claim.path, slot=slot.id, attempt=claim.lease.attempt
            )
            if attempt.before and not attempt.joined:
                self._state.notify(
                    "cell_resumed", cell=claim.path, slot=slot.id, samples=attempt.before
                )

    def make(self, slot: Slot, claim: Claim) -> Attempt | None:
        """An attempt with its folder; None if its lease was lost, or if the folder cannot be made,
        which ends the run unless the disk is full."""
        try:
            attempt = self._recorder.make_attempt(
                claim,
                spec=slot.spec,
                host=slot.spec.host or self._host_name,
                device=label(slot.spec.devices),
                now=self._inbox.now(),
                provenance=self._hosts.provenance(slot.spec.host),
                rate=slot.rate,
                joined=self._scheduler.splitter.joined(claim),
            )
        except OSError as error:
            self.release_claim(claim, f"its folder cannot be made: {error}")
            if unwritable(error).kind == "disk_full":
                self._state.disk_refused()
            else:
                self._state.broken = f"results cannot be written: {error}"
            return None
        # If it was stopped since it claimed, another may be done.
        if not self._heartbeat.is_current(claim.lease):
            self.abandon(attempt)
            return None
        return attempt

    def handle_event(self, slot: Slot, attempt: Attempt, event: AttemptEvent) -> bool:
        """Handle an event of a slot's attempt; whether it ended the attempt."""
        attempt.timeouts.record(event, self._inbox.now())
        if isinstance(event, (Recorded, FileSent)):
            self._record(slot, attempt, event)
        elif isinstance(event, Measured):
            attempt.telemetry.add(event.reading, beside=self._gpu_sharing.beside(slot))
            attempt.folder.measure(event.reading)
            slot.display.reading = event.reading
        elif isinstance(event, Warned):
            attempt.telemetry.warnings.append(event.message)
            message = f"slot {slot.id} ({slot.display.devices}): {event.message}"
            self._state.notify("warning", cell=attempt.claim.path, message=message)
        elif isinstance(event, Started):
            attempt.stage = event.stage
            slot.display.enter(event.stage, self._inbox.now())
            if event.stage == "benchmark":
                self._slots.computes(slot, self._inbox.now())
            self._state.notify("cell_progress", cell=attempt.claim.path, slot=slot.id)
        elif isinstance(event, Progressed):
            slot.display.done, slot.display.total = event.done, event.total
        elif isinstance(event, Checkpointed):
            attempt.checkpoint = event.metrics
        elif isinstance(event, (Done, Failed, Stopped)):
            slot.free()
            slot.closing = not (isinstance(event, Done) or event.fit)
            if slot.closing:
                self._slots.reindex(slot)
            if slot.draining and not slot.closing:
                self._slots.retire(slot)
            self._handle_end(slot, attempt, event)
            return True
        return False

    def _handle_end(self, slot: Slot, attempt: Attempt, event: Done | Failed | Stopped) -> None:
        if attempt.cancelled:
            self.abandon(attempt)
        elif isinstance(event, Done):
            self._submit(attempt, event, event.seconds)
        elif isinstance(event, Failed):
            slot.forget_model_after(event.failure)
            self._slots.reindex(slot)
            self._submit(attempt, event.failure, event.seconds)
        else:
            self.give_back(attempt, event.reason)

    def _record(self, slot: Slot, attempt: Attempt, event: Recorded | FileSent) -> None:
        """Keep samples, or a piece of a file. An attempt that cannot be written ends."""
        try:
            if isinstance(event, FileSent):
                attempt.folder.append(event.name, event.data)
            else:
                attempt.folder.record(event.lines)
        except (OSError, ResultsError) as error:
            failure = unwritable(error)
            if failure.kind == "disk_full":
                self._state.disk_refused()
            self._slots.kill(slot)
            self._submit(attempt, failure, {})
        else:
            if isinstance(event, Recorded):
                self._count_samples(slot, attempt, event)

    def _count_samples(self, slot: Slot, attempt: Attempt, event: Recorded) -> None:
        attempt.done = slot.display.done = event.done
        slot.display.total = event.total
        prompt, generated = event.tokens
        attempt.tokens = attempt.tokens[0] + prompt, attempt.tokens[1] + generated
        slot.display.generated += generated
        self._state.progress.tokens.update(prompt=prompt, completion=generated)
        self._state.notify("cell_progress", cell=attempt.claim.path, slot=slot.id)

    def fail(
        self, attempt: Attempt, stage: Stage, kind: Kind, message: str, *, trace: str = ""
    ) -> None:
        """End an attempt with a failure that its slot could not report."""
        failure = Failure(stage=stage, kind=kind, message=message, retryable=True, trace=trace)
        self._submit(attempt, failure, {stage: self._inbox.now() - attempt.began})

    def _submit(self, attempt: Attempt, how: Done | Failure, seconds: Mapping[str, float]) -> None:
        """Hand the attempt to the publisher; its slot goes on with the next cell.

        A batch system signals all processes of a job at once, so a slot or a script may end by the
        signal before the runner acts on its own: that is no verdict on the cell.
        """
        if isinstance(how, Failure) and self._is_ending_job():
            self.give_back(attempt, f"its batch job ends ({how.message})")
            return
        attempt.took = self._inbox.now() - attempt.began
        if isinstance(how, Failure):
            attempt.had = self._scheduler.advice.memory_of(attempt)
        self._spend(attempt)
        self._publisher.submit(attempt, how, seconds)

    def _is_ending_job(self) -> bool:
        return self._batch_job and self._inbox.is_interrupted(within=SIGNAL_SPREAD_S)

    def handle_written(self, event: AttemptWritten) -> bool:
        """Handle what the publisher did: the attempt is sealed, finished and published, or one of
        these steps failed. Whether its cell may be claimed again. Raises unforeseen errors."""
        self._publisher.under_way -= 1
        self.ran += 1
        attempt, outcome, path = event.attempt, event.outcome, event.attempt.claim.path
        if isinstance(outcome, ClaimLost):
            self.abandon(attempt)
        elif isinstance(outcome, ResultsError):
            self._count(attempt.claim, "success")
            self._state.notify("warning", cell=path, message=str(outcome))
        elif isinstance(outcome, LedgerAway) and self._state.ends and self._ledger.keeps_outcomes:
            self._state.notify(
                "warning", cell=path, message="its outcome is kept here, and sent by the next run"
            )
        elif isinstance(outcome, LedgerFull | LedgerAway) and self._state.interrupts:
            self.give_back(attempt, "the ledger did not take its outcome")
        elif isinstance(outcome, Exception):
            raise outcome
        elif outcome.failure is None:
            self._count(attempt.claim, outcome.state)
            self._state.wrote()
            self._state.progress.used.add(outcome.usage)
            self._state.notify("cell_done", cell=path, took=attempt.took, metrics=outcome.metrics)
            return self._scheduler.unblock_whole(attempt.claim.cell)
        else:
            self._failed(attempt, outcome, outcome.failure)
            return True
        return False

    def _failed(self, attempt: Attempt, outcome: Outcome, failure: Failure) -> None:
        """Report a failure that the ledger has; its cell waits again if it is to be retried."""
        retried = outcome.retry_in is not None
        self._state.progress.used.add(outcome.usage)
        if (failure.kind, failure.stage) == ("disk_full", "collect"):
            self._state.disk_refused()
        self._count(attempt.claim, "pending" if retried else outcome.state)
        if retried:
            self._scheduler.advise(attempt.claim.lease.fingerprint, outcome.advice)
            self._scheduler.follow()  # another slot may have it by now
        self._state.notify(
            "cell_failed",
            cell=attempt.claim.path,
            message=str(failure) if retried else outcome.why,
            retry_in=outcome.retry_in,
            differently=str(outcome.advice) if retried else "",
            attempt=attempt.claim.lease.attempt,
            failure=[failure.stage, failure.kind],
            host=attempt.spec.host,
        )

    def _spend(self, attempt: Attempt) -> None:
        rented = self._scheduler.devices.is_rented(attempt.spec.host)
        self._state.spend(attempt.usage, rented=rented)

    def give_back(self, attempt: Attempt, reason: str) -> None:
        """Release the cell; its next attempt resumes after the last sample."""
        if attempt.cancelled:
            self.abandon(attempt)
            return
        attempt.took = self._inbox.now() - attempt.began
        self._spend(attempt)
        self._recorder.give_back(attempt, reason)
        self._scheduler.backlog.mark_waiting(attempt.claim.lease.fingerprint)
        self._count(attempt.claim, "pending")
        self._state.notify(
            "cell_released", cell=attempt.claim.path, message=reason, samples=attempt.done
        )

    def abandon(self, attempt: Attempt) -> None:
        """End an attempt whose claim was lost or cancelled; nothing of it is published."""
        attempt.took = self._inbox.now() - attempt.began
        self._spend(attempt)
        self._recorder.abandon(attempt)
        self._state.count()
        cell, samples = attempt.claim.path, attempt.done
        fingerprint = attempt.claim.lease.fingerprint
        if attempt.cancelled or self.cancellation.has(fingerprint):
            self._state.notify("cell_cancelled", cell=cell, message="cancelled", samples=samples)
        else:
            self._state.notify("claim_lost", cell=cell, message="released, or held elsewhere now")

    def _count(self, claim: Claim, state: State) -> None:
        """Count the cell so, unless this runner claimed it again meanwhile."""
        if not self._heartbeat.holds(claim.lease.fingerprint):
            self._state.progress.move(claim.lease.fingerprint, state)

    def release_claim(self, claim: Claim, reason: str) -> None:
        """Release a cell that was claimed and never begun."""
        self._heartbeat.drop(claim.lease)
        self._ledger.release([claim.lease], reason)
        self._scheduler.backlog.mark_waiting(claim.lease.fingerprint)
        self._count(claim, "pending")
