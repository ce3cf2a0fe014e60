"""Which cells a runner may begin, as the gates of its campaign's phases stand in the ledger."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

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
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.gates import cells_by_phase, decide_phase

DECISION_TIMEOUT_S = (
    60.0  # seconds that a decision is waited for, after the last sign that one may come
)


@dataclass(frozen=True, kw_only=True)
class GateConfig:
    """The phases of a campaign, and how a runner waits for their gates."""

    phases: Sequence[Phase] = ()
    cells: Sequence[Cell] = ()  # all that the campaign's file has; a judge alone needs them
    again: Callable[[], Sequence[Cell]] | None = None  # reads them again, where they may change
    patient: bool = False  # waits for cells that keep a gate undecided, also while nobody runs them
    judge: str = ""  # who decides gates; "": the file is missing here, so others decide


class Gates:
    """Tells which cells of one runner may begin. A gate is decided once its phase is complete, by a
    runner that has the campaign's file; the others read the decision from the ledger."""

    def __init__(
        self,
        gate_config: GateConfig,
        *,
        ledger: Ledger,
        cells: Sequence[Cell],
        say: Callable[[GateDecision], None],
    ) -> None:
        self._ledger, self._say = ledger, say
        self._phases, self._judge = gate_config.phases, gate_config.judge
        self._whole = cells_by_phase(gate_config.cells, gate_config.phases)
        self._again = gate_config.again
        self._yielded: Collection[str] = ()
        self._cells = {str(cell.fingerprint): cell for cell in cells}
        self._decided: dict[str, GateDecision] = {}
        self._last_sign, self._patient = -math.inf, gate_config.patient
        self._failed = 0

    @property
    def any(self) -> bool:
        """Whether the campaign has phases."""
        return bool(self._phases)

    def suspects(self, cell: Cell) -> bool:
        """Whether nothing is to be begun before it is known how this cell failed."""
        return any(one.name == cell.phase and one.is_critical(cell) for one in self._phases)

    def alarmed(self, failed: int) -> bool:
        """Whether a cell failed since the last time, of which some are critical; `failed` is how
        many did so far."""
        news, self._failed = failed != self._failed, failed
        return news and any(phase.critical for phase in self._phases)

    def learn(self, cells: Sequence[Cell], yielded: Collection[str]) -> None:
        """The runner is about these cells too, perhaps of phases that are new, and not about those
        any more that were given up."""
        self._cells.update((str(cell.fingerprint), cell) for cell in cells)
        self._yielded = yielded
        if self._judge and self._again is not None:
            self._whole = cells_by_phase(self._again(), self._phases)
        record = (
            None if self._judge else newest_record(self._ledger.events(kinds={CAMPAIGN_RECORDED}))
        )
        if record is not None:
            self._phases = record.phases

    def held_back(self) -> list[str]:
        """The cells that may not begin."""
        return [
            name
            for name, cell in self._cells.items()
            if not may_run(cell.phase, self._phases, self._decided)
        ]

    def look(self, *, changed: bool) -> bool:
        """See how the gates stand, `changed` where somebody may have decided; weigh those of phases
        that are complete. Whether other cells may be begun than before."""
        if not self._phases:
            return False
        before = self._decided
        if changed:
            self._decided = newest_decisions(self._ledger.events(kinds=GATE_EVENTS))
        if self._judge:
            for phase in self._phases:
                self._weigh(phase)
        return self._decided != before

    def hopeful(self, now: float) -> bool:
        """Whether a gate may still open: some runner works on its phase."""
        keepers = self._keepers()
        if not keepers:
            return False
        running = self._ledger.cells(states=["running"])
        if any((record.expires_in or 0.0) > 0.0 for record in running):
            self._last_sign = now
        if (
            now - self._last_sign >= DECISION_TIMEOUT_S
            and self._patient
            and self._waits_for_any(keepers)
        ):
            self._last_sign = now
        return now - self._last_sign < DECISION_TIMEOUT_S

    def worked(self, now: float) -> None:
        """Record a sign of progress: other runners may decide now."""
        if not self._judge:
            self._last_sign = now

    def _keepers(self) -> set[str]:
        """The phases whose undecided gates, and nothing else, hold cells of this runner."""
        by_name = {phase.name: phase for phase in self._phases}
        mine = {c.phase for name, c in self._cells.items() if name not in self._yielded}
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

    def _weigh(self, phase: Phase) -> None:
        if phase.name in self._decided or not may_run(phase.name, self._phases, self._decided):
            return
        decision = decide_phase(phase, self._whole[phase.name], self._ledger, by=self._judge)
        if decision is None:
            return
        self._decided = newest_decisions(self._ledger.events(kinds=GATE_EVENTS))
        if phase.name not in self._decided:  # nobody was quicker
            self._ledger.record(decision.event())
            self._decided = {**self._decided, phase.name: decision}
        self._say(self._decided[phase.name])
