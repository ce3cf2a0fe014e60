"""Early ends of attempts: a timeout, an interrupt, or a lost lease."""

from __future__ import annotations

from benchfleet.engines.base import Engine
from benchfleet.runner.events import EventQueue, Interrupted, LeaseLost
from benchfleet.runner.execution.lifecycle import AttemptLifecycle
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.run_state import RunState
from benchfleet.runner.scheduler.scheduler import Scheduler


class Termination:
    """Ends attempts of one runner, each as gently as the reason allows."""

    def __init__(
        self,
        *,
        inbox: EventQueue,
        engine: Engine,
        state: RunState,
        slots: Slots,
        cells: AttemptLifecycle,
        scheduler: Scheduler,
    ) -> None:
        self._inbox, self._engine, self._state = inbox, engine, state
        self._slots, self._lifecycle, self._scheduler = slots, cells, scheduler

    def end_expired(self, *, excused: float) -> None:
        """End the attempts that take too long; leave out the seconds that are not their fault."""
        now = self._inbox.now()
        for slot in self._slots.busy:
            if (attempt := slot.attempt) is None:
                continue  # ended together with another
            if excused:  # what came meanwhile is still to be taken in
                attempt.timeouts.excuse(excused)
            if timeout := attempt.timeouts.expired(now):
                self._slots.kill(slot)
                self._lifecycle.fail(attempt, attempt.stage, timeout.kind, timeout.message)

    def interrupt(self, event: Interrupted) -> None:
        """A person asks the runner to end: the first time in good order, then at once."""
        self._state.interrupts += 1
        self._state.stop_waiting.set()
        twice = self._state.interrupts > 1
        cells = self.stop_all(f"{event.signal} twice" if twice else event.signal, now=twice)
        self._state.notify(
            "interrupted", message=event.signal, times=self._state.interrupts, cells=cells
        )

    def stop_all(self, reason: str, *, now: bool = False) -> int:
        """End what runs after the sample at hand, or now, and give it back; how many cells."""
        busy = [(slot, slot.attempt) for slot in self._slots if slot.attempt is not None]
        for slot, attempt in busy:
            if not now and attempt.stage == "benchmark":
                self._engine.stop(slot.id, attempt.key)
            else:  # where it only loads, nothing is lost by ending it now
                self._slots.kill(slot)
                self._lifecycle.give_back(attempt, reason)
        return len(busy)

    def kill_all(self, reason: str) -> None:
        """Give back what still runs, with its slots."""
        for slot in self._slots:
            if (attempt := slot.attempt) is not None:
                self._slots.kill(slot)
                self._lifecycle.give_back(attempt, reason)

    def lose(self, event: LeaseLost) -> None:
        """Another has the cell by now, or somebody cancelled it."""
        slot = self._slots.running(event.lease)
        if slot is None or (attempt := slot.attempt) is None:
            return
        self._scheduler.follow()  # somebody may have cancelled it
        self._lifecycle.cancellation.look()
        if attempt.cancelled_at is None:
            self._slots.kill(slot)
            self._lifecycle.abandon(attempt)
