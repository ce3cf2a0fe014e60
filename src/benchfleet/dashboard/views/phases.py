"""The phases of a campaign, with their gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchfleet.dashboard.model import ReadModel
from benchfleet.domain.phase import Phase, blocking_phases, may_run
from benchfleet.domain.state import FINAL_STATES


@dataclass(frozen=True, kw_only=True)
class ShownPhase:
    """A phase, as it stands."""

    name: str
    state: str  # held, open, passed or closed
    ended: int
    total: int
    text: str  # what it waits for, or what was decided
    can_open: bool  # by an order


def phases_of(model: ReadModel, phases: Sequence[Phase]) -> list[ShownPhase]:
    """The phases in their order; the lock of the model is held."""
    totals = dict.fromkeys((phase.name for phase in phases), 0)
    ended = dict(totals)
    if phases:
        for row in model.rows:
            if row.phase in totals:
                totals[row.phase] += 1
                ended[row.phase] += row.state in FINAL_STATES
    return [_phase(model, one, phases, ended[one.name], totals[one.name]) for one in phases]


def _phase(
    model: ReadModel, phase: Phase, phases: Sequence[Phase], ended: int, total: int
) -> ShownPhase:
    decision = model.decisions.get(phase.name)
    if decision is not None:
        state, text = ("passed" if decision.state == "opened" else "closed"), str(decision)
    elif may_run(phase.name, phases, model.decisions):
        state, text = "open", phase.gate
    else:
        state = "held"
        text = f"waits for {', '.join(blocking_phases(phase, model.decisions))}"
    return ShownPhase(
        name=phase.name,
        state=state,
        ended=ended,
        total=total,
        text=text,
        can_open=state in ("closed", "open") and not (decision and decision.state == "opened"),
    )
