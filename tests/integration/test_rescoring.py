"""Scoring again beside whatever else happens to the cells, with a scripted slot in virtual time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Claim, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.domain.limits import Limits
from benchfleet.engines.base import AttemptRequest, Done, Failed, SlotEvent, SlotId
from benchfleet.errors import ClaimLost
from benchfleet.maintenance.rescore import Rescored, Rescorer
from benchfleet.results.publish import publish
from benchfleet.runner.attempt.heartbeat import LeaseHeartbeat
from benchfleet.runner.context import RunnerContext
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, cells, sample

UNSCORED = Failure(stage="collect", kind="error", message="the scorer raised")


def unscored(slot: SlotId, request: AttemptRequest) -> list[tuple[float, SlotEvent]]:
    """Two answers, and a scorer that raises."""
    return [
        *[(1.0 + index, sample(request, slot, index)) for index in range(2)],
        (3, Failed(slot=slot, attempt=request.attempt, failure=UNSCORED)),
    ]


def scored(
    slot: SlotId, request: AttemptRequest, overall: float = 1.0
) -> list[tuple[float, SlotEvent]]:
    score = {"overall": overall, "per_sample": [1.0, 1.0], "tasks": {}, "summary": {}}
    return [(1, Done(slot=slot, attempt=request.attempt, score=score, seconds={"collect": 1}))]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Two cells whose scoring failed."""
    made = Stage(tmp_path)
    made.engine.script = unscored
    made.run([replace(cell, limits=Limits(tries=1, cell=60.0)) for cell in cells(2)])
    made.engine.script = scored
    assert set(made.states().values()) == {"partial"}
    return made


def rescored(stage: Stage, pause: Callable[[float], None] = lambda seconds: None) -> list[Rescored]:
    heartbeat = LeaseHeartbeat(stage.ledger, lambda lease: None, lambda error: None, every=1e9)
    context = RunnerContext(
        runner=RunnerId("scorer"),
        ledger=stage.ledger,
        heartbeat=heartbeat,
        engine=stage.engine,
        inbox=stage.inbox,
        layout=stage.layout,
        random=lambda: 1.0,
    )
    return list(
        Rescorer(context, threads=1, pause=pause).rescore(list(stage.ledger.cells(with_cell=True)))
    )


def first(request: AttemptRequest) -> bool:
    return request.cell.id == sample_cell(0).id


def test_what_was_answered_is_scored_and_published(stage: Stage) -> None:
    assert [one.score for one in rescored(stage)] == [1.0, 1.0]
    assert set(stage.states().values()) == {"success"}


def test_claims_that_come_with_a_later_push_are_waited_for(stage: Stage) -> None:
    """As a hosted repository gives them."""
    claim, pushed = stage.ledger.claim, list[float]()

    def late(runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        given = claim(runner, candidates, limit) if pushed else ()
        pushed.clear()
        return given

    stage.ledger.claim = late  # type: ignore[method-assign]
    stage.ledger.hosted = True
    assert [one.score for one in rescored(stage, pushed.append)] == [1.0, 1.0]
    assert set(stage.states().values()) == {"success"}


def test_a_cell_that_another_asked_for_meanwhile_is_left_to_him(stage: Stage) -> None:
    def asked_for(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if first(request):
            name = request.cell.fingerprint
            stage.ledger.record(Event(kind="retry_asked", fingerprint=name))
            stage.ledger.record(Event(kind="cancel_asked", fingerprint=name))
        return scored(slot, request)

    stage.engine.script = asked_for
    taken, other = rescored(stage)
    assert taken.failure is not None
    assert "meanwhile" in taken.failure.message
    assert other.score == 1.0
    assert list(stage.states().values()) == ["cancelled", "success"]


def test_a_score_that_is_none_leaves_the_cell_as_it_is(stage: Stage) -> None:
    stage.engine.script = lambda slot, request: scored(slot, request, math.nan)
    before = list(stage.ledger.cells())
    for one in rescored(stage):
        assert one.failure is not None
        assert one.failure.kind == "bad_result"
    assert list(stage.ledger.cells()) == before


def test_a_scorer_that_does_not_end_is_ended_at_its_limit(stage: Stage) -> None:
    stage.engine.script = lambda slot, request: [] if first(request) else scored(slot, request)
    began = stage.clock()
    hung, other = rescored(stage)
    assert hung.failure is not None
    assert hung.failure.kind == "timeout"
    assert 60 < stage.clock() - began < 70
    assert other.score == 1.0


@pytest.mark.parametrize("error", [ClaimLost("another holds it"), OSError("no disk")])
def test_the_error_of_one_is_reported_and_the_others_go_on(stage: Stage, error: Exception) -> None:
    finish_all, times = stage.ledger.finish_all, []

    def fails_once(ended):  # type: ignore[no-untyped-def]
        times.append(1)
        if len(times) > 1:
            return finish_all(ended)
        if isinstance(error, ClaimLost):
            return [error]
        raise error

    stage.ledger.finish_all = fails_once  # type: ignore[method-assign]
    lost, other = rescored(stage)
    assert lost.failure is not None
    assert str(error) in lost.failure.message
    assert other.score == 1.0


def test_a_result_that_is_published_meanwhile_takes_no_folder_from_under_a_scoring(
    stage: Stage,
) -> None:
    (record, _) = stage.ledger.cells()
    attempts = stage.layout.attempts_of(record.fingerprint)
    for name in ("2-2", "1-0", "rescored-1"):
        (attempts / name).mkdir()
    publish(attempts / "2-2", stage.folder / "public")
    assert (attempts / "rescored-1").exists()
    assert not (attempts / "1-0").exists()


def test_the_lease_of_what_is_sealed_is_held(stage: Stage) -> None:
    finish_all, held = stage.ledger.finish_all, []

    def looks(ended):  # type: ignore[no-untyped-def]
        held.extend(ended)
        assert claim_any(stage.ledger, RunnerId("other")) == []
        return finish_all(ended)

    stage.ledger.finish_all = looks  # type: ignore[method-assign]
    rescored(stage)
    assert len(held) == 2


def test_answers_to_one_question_are_compared_one_by_one(tmp_path: Path) -> None:
    scores = [1.0, 0.0]

    def several(slot: SlotId, request: AttemptRequest) -> list[tuple[float, SlotEvent]]:
        """One question with two answers."""
        events: list[tuple[float, SlotEvent]] = []
        for draw in range(request.recorded.count(b"\n"), 2):
            one = sample(request, slot, draw)
            line = {**json.loads(one.lines), "question": "q", "draw": draw}
            events.append((1.0 + draw, replace(one, lines=json.dumps(line).encode() + b"\n")))
        score = {"overall": 0.5, "per_sample": list(scores), "tasks": {}, "summary": {}}
        return [*events, (9, Done(slot=slot, attempt=request.attempt, score=score, seconds={}))]

    stage = Stage(tmp_path)
    stage.engine.script = several
    stage.run(cells(1))
    (same,) = rescored(stage)
    assert (same.changed, same.differs) == (0, False)
    scores.reverse()
    (other,) = rescored(stage)
    assert (other.changed, other.differs) == (2, True)


def test_a_published_file_that_is_gone_is_named(stage: Stage) -> None:
    rescored(stage)
    (record, _) = stage.ledger.cells()
    (stage.layout.published(record.path) / "samples.jsonl").unlink()
    gone, other = rescored(stage)
    assert gone.failure is not None
    assert "samples.jsonl" in gone.failure.message
    assert not other.differs
    assert json.loads((stage.layout.published(record.path) / "cell.json").read_text())
