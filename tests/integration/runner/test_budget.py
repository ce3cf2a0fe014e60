"""Cells begin only while the budget has room for what they should cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchfleet.domain.budget import Budget
from benchfleet.domain.failure import Failure
from benchfleet.domain.usage import Price
from benchfleet.engines.base import AttemptRequest, Done, Failed, SlotEvent, SlotId, Started
from benchfleet.runner.resources.shapes import Pool
from benchfleet.testing.sample_cells import sample_cell
from stage import CPU, Stage

SHORT = [sample_cell(0, repeat=number, repeats=True) for number in range(4)]
LONG = [sample_cell(1, repeat=number, repeats=True) for number in range(3)]
ONE = Pool(devices=CPU.devices[:1], slots=1, price=Price(amount=36.0, currency="USD"))  # 0.01 a s


def takes(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
    """A short cell takes 5 s, a long one 40."""
    seconds = 5.0 if request.cell.workload == SHORT[0].workload else 40.0
    score = {"overall": 1.0, "per_sample": [], "tasks": {}, "summary": {}}
    return [
        (0.0, Started(slot=slot, attempt=request.attempt, stage="benchmark")),
        (
            seconds,
            Done(slot=slot, attempt=request.attempt, score=score, seconds={"benchmark": seconds}),
        ),
    ]


def test_a_cell_that_should_cost_more_than_remains_waits_and_cheaper_ones_run(stage: Stage) -> None:
    stage.engine.script = takes
    assert stage.run([SHORT[0], LONG[0]], ONE).progress.states == {"success": 2}
    stage.budget = Budget(amount=0.2, currency="USD")  # half a long one
    end = stage.run([*LONG, *SHORT], ONE)
    assert end.progress.states == {"success": 5, "pending": 2}
    assert "of the budget remain, and each waiting cell should cost more" in end.broken
    assert 40.0 <= stage.budget.spending.shortest[LONG[0].need] < 80.0  # rented for nothing less
    stage.budget = Budget(amount=5.0, currency="USD")
    assert stage.run([*LONG, *SHORT], ONE).progress.states == {"success": 7}


def test_what_runs_keeps_its_part_of_the_budget(stage: Stage) -> None:
    """Two long cells together cost more than there is, so the second slot takes short ones."""
    stage.engine.script = takes
    two = replace(ONE, devices=CPU.devices, slots=2, price=Price(amount=72.0, currency="USD"))
    stage.run([SHORT[0], LONG[0]], two)
    stage.budget = Budget(amount=0.7, currency="USD")
    end = stage.run([*LONG[1:], *SHORT[1:]], two)
    assert end.progress.states == {"success": 4, "pending": 1}


def test_a_cell_that_fits_is_waited_for_until_its_next_try(stage: Stage) -> None:
    failed: list[str] = []

    def fails_once(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if request.cell.repeat and not failed:
            failed.append(request.cell.id)
            failure = Failure(stage="load", kind="crash", message="boom", retryable=True)
            return [(1.0, Failed(slot=slot, attempt=request.attempt, failure=failure))]
        return takes(slot, request)

    stage.engine.script = takes
    stage.run([SHORT[0], LONG[0]], ONE)
    stage.engine.script = fails_once
    stage.budget = Budget(amount=0.2, currency="USD")
    end = stage.run([LONG[1], SHORT[1]], ONE)
    assert failed
    assert end.progress.states == {"success": 1, "pending": 1}


def test_other_currencies_and_free_slots_limit_nothing(stage: Stage) -> None:
    stage.engine.script = takes
    stage.run([SHORT[0], LONG[0]], ONE)
    stage.budget = Budget(amount=0.2, currency="EUR")
    assert stage.run(LONG, ONE).progress.states == {"success": 3}
