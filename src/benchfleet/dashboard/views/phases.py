"""The phases of a campaign, with their gates."""

from __future__ import annotations

from collections import Counter

from benchfleet.dashboard.model import ReadModel
from benchfleet.domain.humanize import counted
from benchfleet.domain.phase import ALL_CELLS_ENDED
from benchfleet.domain.state import STATES, State
from benchfleet.ledger.gates import PhaseStatus, statuses_of_counts


def phases_of(model: ReadModel) -> list[PhaseStatus]:
    """The phases in their order; the lock of the model is held."""
    counts: dict[str, Counter[State]] = {phase.name: Counter() for phase in model.phases}
    if counts:
        ledger_states: dict[str, State] = {state: state for state in STATES}
        for row in model.rows:
            if row.phase in counts:
                counts[row.phase][ledger_states.get(row.state, "pending")] += 1
    return statuses_of_counts(model.phases, counts, model.decisions)


def awaited_gates(model: ReadModel) -> str:
    """``waits for the gate of phase e0: score > 0.5 (3 of 8 cells have ended)``, where no waiting
    cell may begin before; "" where some may. The lock of the model is held."""
    phases = phases_of(model)
    held_phases = [one for one in phases if one.blocking_phases and one.states["pending"]]
    waiting = model.counts.get("pending", 0) + model.counts.get("retrying", 0)
    if not held_phases or sum(one.states["pending"] for one in held_phases) < waiting:
        return ""
    blocking = {name for one in held_phases for name in one.blocking_phases}
    first = [one for one in phases if one.phase.name in blocking and one.state != "held"]
    return "waits for " + " and ".join(map(_gate, first))


def _gate(one: PhaseStatus) -> str:
    gate = f"the gate of phase {one.phase.name}: {one.phase.gate or ALL_CELLS_ENDED}"
    if one.state == "closed":
        return f"{gate} (closed)"
    return f"{gate} ({one.ended} of {counted(one.total, 'cell', 'have')} ended)"
