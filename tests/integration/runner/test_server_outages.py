"""A model's server elsewhere that is away is waited for, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.domain.limits import Limits
from benchfleet.domain.resource import Need
from benchfleet.engines.base import AttemptRequest, Failed, SlotEvent, SlotId
from stage import Stage, cells, good

Script = Callable[[SlotId, AttemptRequest], Sequence[tuple[float, SlotEvent]]]
AWAY = Failure(stage="load", kind="server_unavailable", message="no answer", retryable=True)


def served(tries: int = 3) -> list[Cell]:
    limits = Limits(tries=tries)
    return [replace(cell, need=Need(endpoint="lab:1"), limits=limits) for cell in cells(4)]


def away(stage: Stage, until_s: float) -> Script:
    """A server that is away until then."""
    began = stage.clock()

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if stage.clock() - began >= until_s:
            return good(slot, request)
        return [(1.0, Failed(slot=slot, attempt=request.attempt, failure=AWAY))]

    return script


def test_a_server_that_is_away_for_minutes_costs_no_cell_a_try(stage: Stage) -> None:
    stage.engine.script = away(stage, 300.0)
    end = stage.run(served())
    assert end.progress.states == {"success": 4}
    assert {record.tries for record in stage.ledger.cells()} == {1}
    assert len(stage.engine.requests) < 4 * 12  # the delay grows


def test_a_server_that_stays_away_uses_up_the_tries_in_the_end(stage: Stage) -> None:
    stage.engine.script = away(stage, 1e9)
    end = stage.run(served())
    assert end.progress.states == {"failed": 4}
    assert 600.0 < end.seconds < 3600.0


def test_a_cell_with_one_try_fails_at_once(stage: Stage) -> None:
    stage.engine.script = away(stage, 1e9)
    end = stage.run(served(tries=1))
    assert end.progress.states == {"failed": 4}
    assert len(stage.engine.requests) == 4


def test_a_server_that_benchfleet_started_is_not_waited_for(stage: Stage) -> None:
    stage.engine.script = away(stage, 1e9)
    end = stage.run([replace(cell, need=Need()) for cell in served()])
    assert end.progress.states == {"failed": 4}
    assert len(stage.engine.requests) == 4 * 3
