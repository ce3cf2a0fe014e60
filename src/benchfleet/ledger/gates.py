"""How the phases of a campaign stand by what its ledger holds, and the weighing of their gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.gate import CellReport, cell_axes, evaluate_gate
from benchfleet.domain.phase import ALL_CELLS_ENDED, GateDecision, Phase, blocking_phases, may_run
from benchfleet.domain.sample_end import with_defaults
from benchfleet.domain.state import FINAL_STATES, STATES, State

from .base import Ledger

_FAILED: tuple[State, ...] = ("failed", "partial")
_HEADLINE = "score"  # another name of it


@dataclass(frozen=True, kw_only=True)
class PhaseStatus:
    """A phase, as it stands."""

    phase: Phase
    total: int  # cells
    states: Mapping[State, int]
    decision: GateDecision | None  # on its gate
    blocking_phases: tuple[str, ...]  # the phases whose gates keep its cells from being begun

    @property
    def state(self) -> Literal["held", "open", "passed", "closed"]:
        if self.decision is not None:
            return "passed" if self.decision.state == "opened" else "closed"
        return "held" if self.blocking_phases else "open"

    @property
    def text(self) -> str:
        """What was decided on its gate, or what the gate is and what it waits for."""
        if self.decision is not None:
            return str(self.decision)
        gate = f"gate: {self.phase.gate or ALL_CELLS_ENDED}"
        if not self.blocking_phases:
            return gate
        return f"waits for the gate of {', '.join(self.blocking_phases)} · {gate}"

    @property
    def can_be_opened(self) -> bool:
        """Whether an order may open its gate now."""
        return self.state in ("open", "closed")

    @property
    def ended(self) -> int:
        return sum(self.states.get(state, 0) for state in FINAL_STATES)

    @property
    def failed(self) -> int:
        """How many of its cells ended without a whole result."""
        return sum(self.states.get(state, 0) for state in _FAILED)

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "phase": self.phase.name,
            "state": self.state,
            "requires": list(self.phase.requires),
            "held_by": list(self.blocking_phases),
            "gate": self.phase.gate,
            "cells": {"total": self.total, **{s: self.states.get(s, 0) for s in STATES}},
            "decision": self.decision
            and {
                **vars(self.decision),
                "numbers": list(self.decision.numbers),
                "cells": dict(self.decision.cells),
            },
        }


def phase_statuses(
    phases: Sequence[Phase],
    cells: Iterable[Cell],
    records: Iterable[CellRecord],
    decided: Mapping[str, GateDecision],
) -> list[PhaseStatus]:
    """How each phase stands over these cells, in their order."""
    by_phase: dict[str, set[str]] = {phase.name: set() for phase in phases}
    for cell in cells:
        if cell.phase in by_phase:
            by_phase[cell.phase].add(str(cell.fingerprint))
    state_of = {str(record.fingerprint): record.state for record in records}
    counts = {
        name: Counter(state_of.get(one, "pending") for one in names)
        for name, names in by_phase.items()
    }
    return statuses_of_counts(phases, counts, decided)


def statuses_of_counts(
    phases: Sequence[Phase],
    counts: Mapping[str, Mapping[State, int]],
    decided: Mapping[str, GateDecision],
) -> list[PhaseStatus]:
    """The same by the number of cells in each state, for each phase."""
    return [
        PhaseStatus(
            phase=phase,
            total=sum(counts[phase.name].values()),
            states=counts[phase.name],
            decision=decided.get(phase.name),
            blocking_phases=() if may_run(phase.name, phases, decided) else _keeper(phase, decided),
        )
        for phase in phases
    ]


def _keeper(phase: Phase, decided: Mapping[str, GateDecision]) -> tuple[str, ...]:
    """The phases that keep this one: itself, where a critical cell of it failed."""
    return blocking_phases(phase, decided) or (phase.name,)


def decide_phase(
    phase: Phase, cells: Sequence[Cell], ledger: Ledger, *, by: str
) -> GateDecision | None:
    """The decision on the gate of a phase, which has these cells: None while some have not ended,
    and none that is critical has failed for good."""
    names = {str(cell.fingerprint): cell for cell in cells}
    critical = {name for name, cell in names.items() if phase.is_critical(cell)}
    failed = _first(ledger.cells(states=_FAILED, fingerprints=critical)) if critical else None
    if failed is None and _first(ledger.cells(states=["pending", "running"], fingerprints=names)):
        return None
    records = list(ledger.cells(fingerprints=names))
    if failed is None and len(records) < len(names):
        return None
    states: Counter[str] = Counter(record.state for record in records)
    states["pending"] += len(names) - len(records)
    cells_by_state = {state: count for state, count in sorted(states.items()) if count}
    if failed is not None:
        reason = failed.outcome.why if failed.outcome else ""
        return GateDecision(
            phase=phase.name,
            state="closed",
            expression=phase.gate or ALL_CELLS_ENDED,
            why=f"{failed.path} is critical and failed: {reason}".removesuffix(": "),
            by=by,
            critical=failed.path,
            cells=cells_by_state,
        )
    if not phase.gate:
        return GateDecision(phase=phase.name, state="opened", by=by, cells=cells_by_state)
    result = evaluate_gate(phase.gate, [cell_report(names[r.fingerprint], r) for r in records])
    return GateDecision(
        phase=phase.name,
        state="opened" if result.holds else "closed",
        expression=phase.gate,
        why=result.why,
        numbers=tuple(map(str, result.numbers)),
        by=by,
        cells=cells_by_state,
    )


def cell_report(cell: Cell, record: CellRecord) -> CellReport:
    """A cell as gates see it: the numbers and truths that its benchmark reported, and those that
    reports show; ``score`` is the headline."""
    values: dict[str, float | bool] = {}
    if record.outcome is not None and record.state == "success":
        reported_values = {**record.outcome.reported, **with_defaults(record.outcome.metrics)}
        values = {
            name: one
            for name, one in reported_values.items()
            if isinstance(one, (bool, int, float))
        }
        if "overall_score" in values:
            values.setdefault(_HEADLINE, values["overall_score"])
    return CellReport(
        cell=record.path,
        axes=cell_axes(cell),
        success=record.state == "success",
        values=values,
    )


def cells_by_phase(cells: Iterable[Cell], phases: Collection[Phase]) -> dict[str, list[Cell]]:
    """The cells of each phase, by its name."""
    by_name: dict[str, list[Cell]] = {phase.name: [] for phase in phases}
    for cell in cells:
        if cell.phase in by_name:
            by_name[cell.phase].append(cell)
    return by_name


def _first(records: Iterable[CellRecord]) -> CellRecord | None:
    return next(iter(records), None)
