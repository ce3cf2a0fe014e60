"""Cells over a limit of time, and runners and machines that stood still, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.limits import Limits
from benchfleet.engines.base import (
    AttemptRequest,
    Calling,
    SlotEvent,
    SlotId,
)
from benchfleet.runner.events import RunnerEvent
from benchfleet.runner.progress import Notice, Progress
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, cells, good


def limited(
    *, cell: float | None = None, generation: float | None = None, stuck: float | None = None
) -> Cell:
    limits = Limits(tries=2, cell=cell, generation=generation, stuck=stuck)
    return replace(sample_cell(), limits=limits)


def hangs(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
    """It answers all, and calls its model once more."""
    call = Calling(slot=slot, attempt=request.attempt, count=4, sample=1)
    return [*good(slot, request)[:-1], (9, call)]


@pytest.mark.parametrize(
    ("cell", "kind", "output", "seconds"),
    [
        (limited(cell=30), "timeout", "limit of 30 s", 30),
        (
            limited(generation=30),
            "timeout",
            "with 4 prompts, the first that of sample 1, takes longer than its limit of 30 s",
            39,
        ),
        (limited(stuck=30), "stuck", "nothing came of it for 31 s", 39),
    ],
)
def test_a_cell_over_a_limit_is_ended_by_name_and_tried_again_in_another_slot(
    stage: Stage, cell: Cell, kind: str, output: str, seconds: float
) -> None:
    stage.engine.script = hangs
    end = stage.run([cell])
    (record,) = stage.ledger.cells()
    assert (record.state, record.tries) == ("partial", 2)
    assert record.outcome is not None
    failure = record.outcome.failure
    assert failure is not None
    assert (failure.stage, failure.kind, failure.retryable) == ("benchmark", kind, True)
    assert output in failure.message
    assert len({slot for slot, _ in stage.engine.requests}) == 2
    assert 2 * seconds < end.seconds < 2 * seconds + 12


def test_what_came_while_the_runner_itself_was_suspended_counts(stage: Stage) -> None:
    """It is taken in only after the look that is due at once."""

    def suspended(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        first, second, third, done = good(slot, request)
        take = stage.inbox.take

        def sleeps(wait: float) -> RunnerEvent | None:
            stage.inbox.take = take  # type: ignore[method-assign]
            stage.clock.now += 500
            return None

        stage.inbox.take = sleeps  # type: ignore[method-assign]
        return [first, (400, second[1]), (401, third[1]), (402, done[1])]

    stage.engine.script = suspended
    end = stage.run([limited(stuck=60)])
    assert end.progress.states == {"success": 1}
    assert len(stage.engine.requests) == 1


def test_what_a_machine_that_slept_holds_is_its_own_when_it_wakes(stage: Stage) -> None:
    """A clock that stops during sleep does not show it, and the leases expired meanwhile."""

    def sleeps(notice: Notice, progress: Progress) -> None:
        stage.notices.append(notice)
        if notice.kind == "cell_progress":
            stage.slept = 8 * 3600

    stage.renew_every = 12
    stage.watch = sleeps  # type: ignore[method-assign]
    end = stage.run([limited(cell=30)])
    assert end.progress.states == {"success": 1}
    assert len(stage.engine.requests) == 1
    assert not stage.notices_of("warning")


def test_what_a_dead_runner_held_comes_back_after_the_machine_slept(stage: Stage) -> None:
    stage.renew_every = 12
    stage.ledger.enroll(cells(2))
    claim_any(stage.ledger, RunnerId("dead"), 1)
    stage.slept = 3600
    assert stage.run(cells(2)).progress.states == {"success": 2}
