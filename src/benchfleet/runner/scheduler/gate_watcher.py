"""Holds back the cells of closed and undecided gates while a run goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from benchfleet.domain.cell import Cell
from benchfleet.domain.phase import GateDecision
from benchfleet.errors import LedgerAway
from benchfleet.ledger.base import Ledger
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.run_state import RunState
from benchfleet.runner.scheduler.gates import GateConfig, Gates
from benchfleet.runner.scheduler.scheduler import Scheduler


class GateWatcher:
    """Reports held cells to the scheduler, and decided gates to the observer."""

    def __init__(
        self,
        gate_config: GateConfig,
        *,
        ledger: Ledger,
        cells: Sequence[Cell],
        state: RunState,
        scheduler: Scheduler,
    ) -> None:
        self._gates = Gates(gate_config, ledger=ledger, cells=cells, say=self._tell)
        self._state, self._scheduler = state, scheduler
        self._reported_waiting = False
        self._ran = 0  # attempts that had ended when a gate was waited for
        self._suspects: set[str] = set()  # attempts at critical cells, whose failure is written

    @property
    def any(self) -> bool:
        """Whether the campaign has phases."""
        return self._gates.any

    def begin(self, now: float) -> bool:
        """Hold cells back at the start; whether a gate may still open for some."""
        self._scheduler.set_gated(self._gates.held_back())  # also if the ledger cannot be read
        self.refresh()
        return self.any and self._gates.hopeful(now)

    def refresh(self) -> None:
        """Hold back exactly the cells that no gate admits."""
        if not self.any:
            return
        changed, self._scheduler.gates_decided = self._scheduler.gates_decided, False
        try:
            if self._gates.look(changed=changed) or changed:
                self._scheduler.set_gated(self._gates.held_back())
        except LedgerAway:
            self._scheduler.gates_decided = True  # check again

    def may_open(self, now: float, *, ran: int) -> bool:
        """Whether a gate may soon let more be begun; `ran` attempts have ended so far."""
        if ran != self._ran:
            self.works(now)
        self._ran = ran
        try:
            if not self._gates.hopeful(now):
                return False
        except LedgerAway:
            return True
        if not self._reported_waiting:
            self._reported_waiting = True
            self._state.notify("waiting", message="a gate that is undecided")
        return True

    def works(self, now: float) -> None:
        """Record that this runner works."""
        self._gates.worked(now)

    def learn(self, cells: Sequence[Cell], yielded: Collection[str]) -> None:
        """The runner is about these cells too, and not about those any more."""
        self._gates.learn(cells, yielded)

    def failed(self, attempt: Attempt) -> None:
        """The attempt failed, and that is being written."""
        if self._gates.suspects(attempt.claim.cell):
            self._suspects.add(attempt.key)

    def written(self, attempt: Attempt) -> None:
        """How the attempt ended is written."""
        self._suspects.discard(attempt.key)

    def admits(self, states: Mapping[str, int], *, writing: bool) -> bool:
        """Whether anything may be begun before more is known; `writing` where ends of attempts
        are on their way to the ledger."""
        if self._suspects and writing:
            return False
        self._suspects.clear()
        if self._gates.alarmed(states.get("failed", 0) + states.get("partial", 0)):
            self.refresh()
        return True

    def _tell(self, decision: GateDecision) -> None:
        self._reported_waiting = False
        message = f"{decision.phase}: {decision}"
        self._state.notify(
            "gate_decided",
            message=message,
            phase=decision.phase,
            by=decision.by,
            opened=decision.state == "opened",
        )
