"""Early ends of attempts: a timeout, an interrupt, or a lost lease."""

from __future__ import annotations

from math import inf

from benchfleet.engines.base import Engine
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.events import EventQueue, Interrupted, LeaseLost
from benchfleet.runner.execution.lifecycle import AttemptLifecycle
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.run_state import RunState
from benchfleet.runner.scheduler.scheduler import Scheduler
from benchfleet.runner.worker_options import STOP_GRACE_S


class Termination:
    """Ends attempts of one runner, each as gently as the reason allows."""

    def __init__(
        self,
        *,
        inbox: EventQueue,
        engine: Engine,
        state: RunState,
        slots: Slots,
        lifecycle: AttemptLifecycle,
        scheduler: Scheduler,
        batch_job: bool,
    ) -> None:
        self._inbox, self._engine, self._state = inbox, engine, state
        self._grace = STOP_GRACE_S if batch_job else inf  # after a signal
        self._slots, self._lifecycle, self._scheduler = slots, lifecycle, scheduler

    def end_expired(self, *, excused: float) -> None:
        """End the attempts that take too long, or to stop; leave out the seconds that are not
        their fault."""
        now = self._inbox.now()
        for slot in self._slots.busy:
            if (attempt := slot.attempt) is None:
                continue  # ended together with another
            if excused:  # what came meanwhile is still to be taken in
                attempt.timeouts.excuse(excused)
            if now > attempt.kill_at:
                self._kill(slot, attempt, f"it did not stop within {STOP_GRACE_S:g} s")
            elif timeout := attempt.timeouts.expired(now):
                self._slots.kill(slot)
                self._lifecycle.fail(attempt, attempt.stage, timeout.kind, timeout.message)

    def interrupt(self, event: Interrupted) -> None:
        """A person asks the runner to end: the first time in good order, then at once."""
        self._state.interrupts += 1
        self._state.stop_waiting.set()
        twice = self._state.interrupts > 1
        reason = f"{event.signal} twice" if twice else event.signal
        cells = self.stop_all(reason, grace=self._grace, now=twice)
        self._state.notify(
            "interrupted", message=event.signal, times=self._state.interrupts, cells=cells
        )

    def stop_all(self, reason: str, *, grace: float = inf, now: bool = False) -> int:
        """End what runs after the sample at hand, or now, and give it back; how many cells."""
        busy = [(slot, slot.attempt) for slot in self._slots if slot.attempt is not None]
        for slot, attempt in busy:
            if now:
                self._kill(slot, attempt, reason)
            else:
                self.stop(slot, attempt, reason, grace=grace)
        return len(busy)

    def stop(self, slot: Slot, attempt: Attempt, reason: str, *, grace: float) -> None:
        """End an attempt after the sample at hand, or when the grace time is over. It is killed at
        once if it only loads: then nothing is lost."""
        if attempt.stage == "benchmark":
            self._engine.stop(slot.id, attempt.key)
            attempt.kill_at = min(attempt.kill_at, self._inbox.now() + grace)
        else:
            self._kill(slot, attempt, reason)

    def _kill(self, slot: Slot, attempt: Attempt, reason: str) -> None:
        """End an attempt with its slot, and give it back."""
        self._slots.kill(slot)
        self._lifecycle.give_back(attempt, reason)

    def lose(self, event: LeaseLost) -> None:
        """Another has the cell by now, or somebody cancelled it."""
        slot = self._slots.running(event.lease)
        if slot is None or (attempt := slot.attempt) is None:
            return
        self._scheduler.follow()  # somebody may have cancelled it
        self._lifecycle.cancellation.look()
        if not attempt.cancelled:
            self._slots.kill(slot)
            self._lifecycle.abandon(attempt)
