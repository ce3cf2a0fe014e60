"""The phases of a campaign, with their gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchfleet.dashboard.model import ReadModel
from benchfleet.domain.phase import Phase
from benchfleet.domain.state import STATES, State
from benchfleet.ledger.gates import PhaseStatus, statuses_of_counts


def phases_of(model: ReadModel, phases: Sequence[Phase]) -> list[PhaseStatus]:
    """The phases in their order; the lock of the model is held."""
    counts: dict[str, Counter[State]] = {phase.name: Counter() for phase in phases}
    if phases:
        ledger_states: dict[str, State] = {state: state for state in STATES}
        for row in model.rows:
            if row.phase in counts:
                counts[row.phase][ledger_states.get(row.state, "pending")] += 1
    return statuses_of_counts(phases, counts, model.decisions)
