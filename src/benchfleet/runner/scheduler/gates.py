"""Holds back the cells of closed and undecided gates while a run goes on."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from benchfleet.domain.campaign_record import CAMPAIGN_RECORDED, newest_record
from benchfleet.domain.cell import Cell
from benchfleet.domain.phase import (
    GATE_EVENTS,
    GateDecision,
    Phase,
    blocking_phases,
    may_run,
    newest_decisions,
)
from benchfleet.errors import LedgerAway
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.gates import cells_by_phase, decide_phase
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.run_state import RunState
from benchfleet.runner.scheduler.run_request import GateConfig
from benchfleet.runner.scheduler.scheduler import Scheduler

DECISION_TIMEOUT_S = (
    60.0  # seconds that a decision is waited for, after the last sign that one may come
)


class Gates:
    """Reports held cells to the scheduler, and decided gates to the observer. A gate is decided
    once its phase is complete, by a runner that has the campaign's file; the others read the
    decision from the ledger."""

    def __init__(
        self,
        gate_config: GateConfig,
        *,
        ledger: Ledger,
        cells: Sequence[Cell],
        state: RunState,
        scheduler: Scheduler,
    ) -> None:
        self._ledger, self._state, self._scheduler = ledger, state, scheduler
        self._phases, self._judge = gate_config.phases, gate_config.judge
        self._whole = cells_by_phase(gate_config.cells, gate_config.phases)
        self._again, self._patient = gate_config.again, gate_config.patient
        self._cells = {str(cell.fingerprint): cell for cell in cells}
        self._decided: dict[str, GateDecision] = {}
        self._last_sign = -math.inf  # when it was last seen that a decision may come
        self._reported_waiting = False
        self._ran = 0  # attempts that had ended when a gate was waited for
        self._failed = 0  # cells that had failed when critical ones were looked for
        self._suspects: set[str] = set()  # attempts at critical cells, whose failure is written

    @property
    def any(self) -> bool:
        """Whether the campaign has phases."""
        return bool(self._phases)

    def begin(self, now: float) -> bool:
        """Hold cells back at the start; whether a gate may still open for some."""
        self._hold_back()  # also if the ledger cannot be read
        self.refresh()
        if not self.any:
            return False
        if not self._judge and self._waits_for_any(self._keepers()):
            self._last_sign = now  # others may be about to claim these cells
        return self._hopeful(now)

    def refresh(self) -> None:
        """Hold back exactly the cells that no gate admits, and decide the gates of phases that are
        complete."""
        if not self.any:
            return
        changed, self._scheduler.gates_decided = self._scheduler.gates_decided, False
        before = self._decided
        try:
            if changed:
                self._decided = newest_decisions(self._ledger.events(kinds=GATE_EVENTS))
            if self._judge:
                for phase in self._phases:
                    self._decide(phase)
            if changed or self._decided != before:
                self._hold_back()
        except LedgerAway:
            self._scheduler.gates_decided = True  # check again

    def may_open(self, now: float, *, ran: int) -> bool:
        """Whether a gate may soon let more be begun; `ran` attempts have ended so far."""
        if ran != self._ran and not self._judge:
            self._last_sign = now  # other runners may decide now
        self._ran = ran
        try:
            if not self._hopeful(now):
                return False
        except LedgerAway:
            return True
        if not self._reported_waiting:
            self._reported_waiting = True
            self._state.notify("waiting", message="a gate that is undecided")
        return True

    def learn(self, cells: Sequence[Cell]) -> None:
        """The runner is about these cells too, perhaps of phases that are new."""
        self._cells.update((str(cell.fingerprint), cell) for cell in cells)
        if self._judge and self._again is not None:
            self._whole = cells_by_phase(self._again(), self._phases)
        record = (
            None if self._judge else newest_record(self._ledger.events(kinds={CAMPAIGN_RECORDED}))
        )
        if record is not None:
            self._phases = record.phases

    def failed(self, attempt: Attempt) -> None:
        """The attempt failed, and that is being written."""
        cell = attempt.claim.cell
        if any(phase.name == cell.phase and phase.is_critical(cell) for phase in self._phases):
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
        before, self._failed = self._failed, states.get("failed", 0) + states.get("partial", 0)
        if self._failed != before and any(phase.critical for phase in self._phases):
            self.refresh()
        return True

    def _hold_back(self) -> None:
        held_back = (
            name
            for name, cell in self._cells.items()
            if not may_run(cell.phase, self._phases, self._decided)
        )
        self._scheduler.hold_back("gate", held_back)

    def _hopeful(self, now: float) -> bool:
        """Whether a gate may still open: some runner works on its phase."""
        keepers = self._keepers()
        if not keepers:
            return False
        running = self._ledger.cells(states=["running"], parts=True)
        if any((record.expires_in or 0.0) > 0.0 for record in running):
            self._last_sign = now
        if (
            now - self._last_sign >= DECISION_TIMEOUT_S
            and self._patient
            and self._waits_for_any(keepers)
        ):
            self._last_sign = now
        return now - self._last_sign < DECISION_TIMEOUT_S

    def _keepers(self) -> set[str]:
        """The phases whose undecided gates, and nothing else, hold cells of this runner."""
        by_name = {phase.name: phase for phase in self._phases}
        others = self._scheduler.left_to_others
        mine = {c.phase for name, c in self._cells.items() if name not in others}
        keepers: set[str] = set()
        for phase in mine:
            if not may_run(phase, self._phases, self._decided):
                keepers |= self._undecided(by_name[phase], by_name)
        return keepers

    def _undecided(self, phase: Phase, by_name: Mapping[str, Phase]) -> set[str]:
        """The phases that hold this one, and those that hold them; none where one is closed."""
        keepers = list(blocking_phases(phase, self._decided))
        for name in keepers:
            if name in self._decided:
                return set()
            keepers += blocking_phases(by_name[name], self._decided)
        return set(keepers)

    def _waits_for_any(self, phases: Collection[str]) -> bool:
        """Whether a cell of these phases is left to be run, by any runner."""
        remaining = self._ledger.cells(states=["pending", "running"], with_cell=True)
        return any(record.cell is not None and record.cell.phase in phases for record in remaining)

    def _decide(self, phase: Phase) -> None:
        """Decide the gate of this phase if the phase is complete, unless somebody was quicker."""
        if phase.name in self._decided or not may_run(phase.name, self._phases, self._decided):
            return
        decision = decide_phase(phase, self._whole[phase.name], self._ledger, by=self._judge)
        if decision is None:
            return
        self._decided = newest_decisions(self._ledger.events(kinds=GATE_EVENTS))
        if phase.name not in self._decided:
            self._ledger.record(decision.event())
            self._decided = {**self._decided, phase.name: decision}
        decision = self._decided[phase.name]
        self._reported_waiting = False
        self._state.notify(
            "gate_decided",
            message=f"{decision.phase}: {decision}",
            phase=decision.phase,
            by=decision.by,
            opened=decision.state == "opened",
        )
