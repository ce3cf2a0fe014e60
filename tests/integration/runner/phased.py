"""Two phases with a gate between them, and how their cells end, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchfleet.domain.attempt import Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure, Kind
from benchfleet.domain.phase import GATE_EVENTS, GateDecision, Phase, newest_decisions
from benchfleet.engines.base import AttemptRequest, Done, Failed, SlotEvent, SlotId, Started
from benchfleet.runner.scheduler.run_request import GateConfig
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, good

OTHER = RunnerId("other" * 8)
E0 = Phase(name="e0", gate="min(score) >= 0.9")
E1 = Phase(name="e1", requires=("e0",))
PHASES = (E0, E1)


def phase_cells(first: int = 2, second: int = 2) -> list[Cell]:
    numbers = [("e0", n) for n in range(first)] + [("e1", first + n) for n in range(second)]
    return [sample_cell(number, phase=phase) for phase, number in numbers]


def scoring(
    overall: Callable[[Cell], float],
) -> Callable[[SlotId, AttemptRequest], Sequence[tuple[float, SlotEvent]]]:
    def run(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        *before, (at, done) = good(slot, request)
        assert isinstance(done, Done)
        return [
            *before,
            (at, replace(done, score={**done.score, "overall": overall(request.cell)})),
        ]

    return run


def failing(
    phase: str, kind: Kind = "user_error"
) -> Callable[..., Sequence[tuple[float, SlotEvent]]]:
    def run(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if request.cell.phase != phase:
            return good(slot, request)
        failure = Failure(stage="load", kind=kind, message="it is broken")
        return [
            (0, Started(slot=slot, attempt=request.attempt, stage="load")),
            (1, Failed(slot=slot, attempt=request.attempt, failure=failure, seconds={})),
        ]

    return run


def judged(stage: Stage, cells: Sequence[Cell], phases: Sequence[Phase] = PHASES) -> Stage:
    stage.gate_config = GateConfig(phases=phases, cells=cells, judge="lab")
    return stage


def gates(stage: Stage) -> dict[str, GateDecision]:
    return newest_decisions(stage.ledger.events(kinds=GATE_EVENTS))


def began(stage: Stage) -> list[str]:
    """The phases of the cells that were begun, in order."""
    phases = {
        record.id: record.cell.phase for record in stage.ledger.cells(with_cell=True) if record.cell
    }
    return [phases[cell] for _, cell in stage.engine.requests]


def other_ends(stage: Stage, cell: Cell) -> Lease:
    """Another runner ends the cell well."""
    (claim,) = stage.ledger.claim(OTHER, [cell.fingerprint])
    stage.ledger.finish(claim.lease, Outcome(state="success", metrics={"overall_score": 1.0}))
    return claim.lease
