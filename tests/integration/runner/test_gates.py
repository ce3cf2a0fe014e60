"""Phases one after the other: the runner's loop with scripted slots in virtual time."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.campaign_record import CampaignRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.matrix import Rule
from benchfleet.domain.phase import GATE_EVENTS, GateDecision, Phase, gate_reset
from benchfleet.engines.base import AttemptRequest, SlotEvent, SlotId
from benchfleet.runner.scheduler.gates import DECISION_TIMEOUT_S
from benchfleet.runner.scheduler.run_request import GateConfig
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, good

from .conftest import Person
from .phased import (
    E0,
    E1,
    OTHER,
    PHASES,
    began,
    failing,
    gates,
    judged,
    other_ends,
    phase_cells,
    scoring,
)


def test_a_phase_begins_once_all_of_the_one_before_has_ended(stage: Stage) -> None:
    cells = phase_cells(3, 2)
    end = judged(stage, cells).run(cells)
    assert end.progress.states == {"success": 5}
    assert began(stage) == ["e0"] * 3 + ["e1"] * 2
    decided = gates(stage)
    assert decided["e0"].state == decided["e1"].state == "opened"
    assert decided["e0"].by == "lab"
    assert decided["e0"].cells == {"success": 3}
    assert decided["e0"].numbers[0].startswith("min(score) = 1 (of 3 cells")
    assert [notice.message[:3] for notice in stage.notices_of("gate_decided")] == ["e0:", "e1:"]


def test_what_does_not_hold_keeps_later_phases_from_being_begun(stage: Stage) -> None:
    cells = phase_cells()
    stage.engine.script = scoring(lambda cell: 0.5)
    end = judged(stage, cells).run(cells)
    assert began(stage) == ["e0", "e0"]
    assert end.progress.states == {"success": 2, "pending": 2}
    assert gates(stage)["e0"].state == "closed"
    assert "e1" not in gates(stage)


def again(stage: Stage, cell: Cell) -> None:
    """Somebody deletes the result of a cell and wants it run again."""
    (record,) = stage.ledger.cells(fingerprints={str(cell.fingerprint)})
    shutil.rmtree(stage.layout.published(record.path))
    stage.ledger.record(Event(kind="retry_asked", fingerprint=cell.fingerprint))


def test_a_gate_is_weighed_once_whatever_comes_after(stage: Stage) -> None:
    cells = phase_cells()
    stage.engine.script = scoring(lambda cell: 0.5)
    judged(stage, cells).run(cells)
    again(stage, cells[0])
    stage.engine.script = good
    end = stage.run(cells)
    assert end.ran == 1  # behind its own closed gate a phase goes on
    assert gates(stage)["e0"].state == "closed"
    assert len(stage.ledger.events(kinds=GATE_EVENTS)) == 1
    stage.ledger.record(gate_reset("e0", "me"))
    again(stage, cells[1])
    assert stage.run(cells).progress.states == {"success": 4}


def test_a_critical_failure_closes_its_phase_at_once(stage: Stage) -> None:
    critical = replace(E0, critical=(Rule(benchmarks=("benchmark-1",)),))
    cells = phase_cells(6, 1)

    def second_fails(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        fails = request.cell.workload.benchmark == "benchmark-1"
        return failing("e0")(slot, request) if fails else good(slot, request)

    stage.engine.script = second_fails
    end = judged(stage, cells, (critical, E1)).run(cells)
    decision = gates(stage)["e0"]
    assert decision.critical == "tiny/dense/benchmark-1"
    assert "is critical and failed: load: user_error (it is broken)" in decision.why
    # What ran beside it went on to its end, and nothing was begun after it.
    assert end.progress.states == {"success": 1, "failed": 1, "pending": 5}
    before = len(stage.engine.requests)
    assert stage.run(cells).ran == 0
    assert len(stage.engine.requests) == before
    opened = GateDecision(phase="e0", state="opened", override=True, why="it is known", by="me")
    stage.ledger.record(opened.event())
    assert stage.run(cells).progress.states == {"success": 6, "failed": 1}


def test_a_failed_cell_that_is_not_critical_is_weighed_with_the_rest(stage: Stage) -> None:
    cells = phase_cells(1, 1)
    stage.engine.script = failing("e0")
    judged(stage, cells).run(cells)
    assert "did not succeed" in gates(stage)["e0"].why or "no cell" in gates(stage)["e0"].why
    stage.ledger.record(gate_reset("e0", "me"))
    end = judged(stage, cells, (replace(E0, gate=""), E1)).run(cells)
    assert end.progress.states == {"failed": 1, "success": 1}


def test_a_gate_that_another_opens_is_noticed_while_running(stage: Stage, person: Person) -> None:
    """Without the file nobody here weighs; what holds the cells of the phase before does."""
    cells = phase_cells(1, 2)
    stage.gate_config = GateConfig(phases=PHASES)
    stage.ledger.enroll(cells)
    opened = GateDecision(phase="e0", state="opened", by="elsewhere").event()
    person.does(30, lambda: stage.ledger.record(opened))
    end = stage.run(cells)
    assert end.progress.states == {"success": 3}
    assert [notice.kind for notice in stage.notices_of("waiting")] == ["waiting"]


@pytest.mark.parametrize("takes", [10.0, 0.1])
def test_who_cannot_weigh_a_gate_waits_a_while_and_ends(stage: Stage, takes: float) -> None:
    cells = phase_cells(1, 2)

    def quick(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        return [(at * takes / 10, event) for at, event in good(slot, request)]

    stage.engine.script = quick
    stage.gate_config = GateConfig(phases=PHASES)
    end = stage.run(cells)
    assert end.progress.states == {"success": 1, "pending": 2}
    assert DECISION_TIMEOUT_S < end.seconds < DECISION_TIMEOUT_S + 20
    assert gates(stage) == {}


def test_cells_that_nobody_sees_to_are_not_waited_for(stage: Stage) -> None:
    cells = phase_cells(2, 2)
    judged(stage, cells)
    stage.ledger.enroll(cells)
    end = stage.run(cells[2:])
    assert end.seconds == 0
    assert end.progress.states == {"pending": 2}


def test_a_phase_that_others_work_at_is_waited_for(stage: Stage, person: Person) -> None:
    cells = phase_cells(1, 1)
    judged(stage, cells)
    stage.ledger.enroll(cells)
    (claim,) = claim_any(stage.ledger, OTHER, 1)
    outcome = Outcome(state="success", metrics={"overall_score": 1.0})
    person.does(40, lambda: stage.ledger.finish(claim.lease, outcome))
    end = stage.run(cells[1:])
    assert end.progress.states == {"success": 1}
    assert gates(stage)["e0"].state == "opened"


def test_a_worker_waits_for_others_that_begin_a_moment_later(stage: Stage, person: Person) -> None:
    cells = phase_cells(1, 1)
    stage.gate_config = GateConfig(phases=PHASES)
    stage.ledger.enroll(cells)
    opened = GateDecision(phase="e0", state="opened", by="elsewhere").event()
    person.does(20, lambda: other_ends(stage, cells[0]))
    person.does(30, lambda: stage.ledger.record(opened))
    end = stage.run(cells[1:])
    assert end.progress.states == {"success": 1}


def test_who_was_given_cells_waits_for_others_that_begin_later(
    stage: Stage, person: Person
) -> None:
    cells = phase_cells(1, 1)
    judged(stage, cells)
    stage.gate_config = replace(stage.gate_config, patient=True)
    stage.ledger.enroll(cells)
    person.does(1000, lambda: other_ends(stage, cells[0]))
    end = stage.run(cells[1:])
    assert end.progress.states == {"success": 1}


def test_who_was_given_cells_does_not_wait_for_what_nobody_has(stage: Stage) -> None:
    cells = phase_cells(1, 1)
    stage.gate_config = GateConfig(phases=PHASES, patient=True)
    stage.ledger.enroll(cells[1:])
    end = stage.run(cells[1:])
    assert end.seconds == 0


def test_phases_of_a_campaign_that_grew_are_learned_from_the_ledger(stage: Stage) -> None:
    """A worker without the file holds cells of a phase that it never heard of."""
    cells = phase_cells(1, 1)
    stage.gate_config = GateConfig(phases=(E0,))
    stage.options = WorkerOptions(enrolls=False, more=lambda: cells)
    stage.ledger.enroll(cells)
    stage.ledger.record(CampaignRecord(name="study", phases=PHASES).event())
    end = stage.run(cells[:1])
    assert began(stage) == ["e0"]
    assert end.progress.states == {"success": 1, "pending": 1}


def test_phases_without_order_share_the_slots(stage: Stage) -> None:
    cells = phase_cells(2, 2)
    apart = (E0, replace(E1, requires=()))
    end = judged(stage, cells, apart).run(cells)
    assert end.seconds == pytest.approx(20)
    assert set(gates(stage)) == {"e0", "e1"}


def test_a_chain_of_phases_that_are_done_opens_in_one_look(stage: Stage) -> None:
    phases = tuple(Phase(name=f"p{n}", requires=(f"p{n - 1}",) if n else ()) for n in range(4))
    cells = [sample_cell(n, phase=f"p{n}") for n in range(4)]
    stage.ledger.enroll(cells)
    for cell in cells[:3]:
        other_ends(stage, cell)
    end = judged(stage, cells, phases).run(cells)
    assert end.ran == 1
    assert [event.data["phase"] for event in stage.ledger.events(kinds=GATE_EVENTS)] == [
        "p0", "p1", "p2", "p3",
    ]  # fmt: skip


def test_nothing_is_let_go_where_the_ledger_cannot_say_how_gates_stand(stage: Stage) -> None:
    cells = phase_cells(1, 1)
    stage.ledger.enroll(cells)
    stage.gate_config = GateConfig(phases=PHASES)
    scheduler = stage.runner(cells)._scheduler
    scheduler.hold_back("gate", [cells[1].fingerprint])
    assert scheduler.devices.able == {cells[0].fingerprint}
    asked = stage.ledger.cells
    stage.ledger.cells = lambda **_: 1 / 0  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        scheduler.hold_back("gate", [])
    assert scheduler.devices.able == {cells[0].fingerprint}
    stage.ledger.cells = asked  # type: ignore[method-assign]
    scheduler.hold_back("gate", [])
    assert scheduler.devices.able == {cell.fingerprint for cell in cells}


def test_cells_that_the_plan_takes_from_others_wait_once_the_ledger_answers(stage: Stage) -> None:
    cells = phase_cells(1, 1)
    stage.ledger.enroll(cells)
    scheduler = stage.runner(cells)._scheduler
    scheduler.hold_back("plan", [cells[1].fingerprint])
    read = stage.ledger.cells
    stage.ledger.cells = lambda **_: 1 / 0  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        scheduler.hold_back("plan", [])
    stage.ledger.cells = read  # type: ignore[method-assign]
    assert scheduler.hold_back("plan", [])
    assert scheduler.devices.able == {cell.fingerprint for cell in cells}
