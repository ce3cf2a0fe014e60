"""How long a runner stays and where its cells come from, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchfleet.domain.cell import Cell
from benchfleet.domain.plan import Plan
from benchfleet.engines.base import AttemptRequest, Done, SlotEvent, SlotId, SlotLost
from benchfleet.runner.events import Interrupted
from benchfleet.runner.worker_options import MAX_PAUSE_S, STOP_GRACE_S, WorkerOptions
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, cells, good

from .conftest import Person


def test_cells_of_the_ledger_are_never_enrolled_by_its_worker(stage: Stage) -> None:
    known = cells(3)
    stage.ledger.enroll(known[:2])
    stage.options = WorkerOptions(enrolls=False)
    end = stage.run(known[:2])
    assert end.progress.states == {"success": 2}
    assert [event.data["new"] for event in stage.ledger.events(kinds={"enrolled"})] == [2]


def more_cells(stage: Stage) -> Sequence[Cell]:
    """What the ledger has."""
    return [record.cell for record in stage.ledger.cells(with_cell=True) if record.cell]


def test_cells_that_are_enrolled_while_it_works_are_taken_in(stage: Stage, person: Person) -> None:
    known: list[Cell] = cells(2)
    stage.ledger.enroll(known)

    stage.options = WorkerOptions(enrolls=False, more=lambda: more_cells(stage))
    person.does(3, lambda: stage.ledger.enroll(cells(5)))
    end = stage.run(known)
    assert end.progress.states == {"success": 5}
    assert end.progress.total == 5
    assert len(stage.engine.requests) == 5


def test_one_that_stays_waits_ever_longer_and_lets_go_of_its_models(
    stage: Stage, person: Person
) -> None:
    known: list[Cell] = cells(4)
    stage.options = WorkerOptions(enrolls=False, stays=True, more=lambda: more_cells(stage))
    stage.ledger.enroll(known[:2])
    slots: list[int] = []
    person.does(500, lambda: slots.append(len(stage.engine.specs)))
    person.does(500, lambda: stage.ledger.enroll(known))
    person.does(600, lambda: stage.inbox.post(Interrupted(signal="SIGTERM")))
    end = stage.run(known[:2])
    assert max(person.waits) == pytest.approx(MAX_PAUSE_S)
    assert slots == [0]
    assert end.progress.states == {"success": 4}
    assert end.interrupted


def long(slot: SlotId, request: AttemptRequest) -> list[tuple[float, SlotEvent]]:
    """Cells of the second benchmark take fifty seconds."""
    if request.cell.workload.subset != "slow":
        return good(slot, request)
    script = [(5 * at, event) for at, event in good(slot, request)]
    at, done = script.pop()
    assert isinstance(done, Done)
    return [*script, (at, replace(done, seconds={"benchmark": at}))]


def slow(count: int) -> list[Cell]:
    """So many repeats of what takes long."""
    return [sample_cell(subset="slow", repeat=n, repeats=True) for n in range(count)]


def test_nothing_is_begun_that_should_take_longer_than_is_left(stage: Stage) -> None:
    stage.engine.script = long
    stage.run(slow(2))  # from which its time is known
    began = len(stage.engine.requests)
    stage.options = WorkerOptions(seconds=75)
    end = stage.run([*slow(6), *cells(5)[1:]])
    taken = [cell for _, cell in stage.engine.requests[began:]]
    assert sum("slow" in cell for cell in taken) == 2  # on two slots, and no second one
    assert end.progress.states == {"success": 8, "pending": 2}
    assert end.seconds < 75
    assert not end.interrupted


def test_what_runs_when_its_time_is_over_is_given_back_after_the_sample_at_hand(
    stage: Stage,
) -> None:
    stage.engine.script = long
    stage.options = WorkerOptions(seconds=30)
    end = stage.run(slow(3))  # nobody knows how long
    assert end.seconds == pytest.approx(30, abs=5)
    assert "time" in end.broken
    assert set(stage.states().values()) == {"pending"}
    assert [notice.data["samples"] for notice in stage.notices_of("cell_released")] == [1, 1]


def test_one_that_stays_ends_after_a_time_in_which_no_cell_ran(
    stage: Stage, person: Person
) -> None:
    stage.options = WorkerOptions(
        enrolls=False, stays=True, idle_exit=120, more=lambda: more_cells(stage)
    )
    stage.ledger.enroll(cells(2))
    person.does(100, lambda: stage.ledger.enroll(cells(4)))
    end = stage.run(cells(2))
    assert end.progress.states == {"success": 4}
    assert end.seconds == pytest.approx(100 + 120, abs=3 * MAX_PAUSE_S)
    assert (end.interrupted, end.broken) == (False, "")


def test_slots_that_start_slowly_are_waited_for(stage: Stage) -> None:
    stage.options = WorkerOptions(enrolls=False, stays=True, idle_exit=1)
    stage.engine.start_takes = 40
    stage.ledger.enroll(cells(2))
    end = stage.run(cells(2))
    assert end.progress.states == {"success": 2}


@pytest.mark.parametrize("batch_job", [True, False])
def test_in_a_batch_job_a_sample_that_takes_too_long_is_ended_soon_after_the_signal(
    stage: Stage, batch_job: bool
) -> None:
    stage.engine.script = long
    stage.engine.stop = lambda slot, attempt: None  # type: ignore[method-assign]
    stage.options = WorkerOptions(batch_job=batch_job)
    stage.inbox.post(Interrupted(signal="SIGTERM"), after=12)
    end = stage.run(slow(1))
    if batch_job:
        assert end.seconds == pytest.approx(12 + STOP_GRACE_S, abs=3)
        (released,) = stage.notices_of("cell_released")
        assert released.message == f"it did not stop within {STOP_GRACE_S:g} s"
        assert set(stage.states().values()) == {"pending"}
    else:
        assert end.seconds > 12 + 1.5 * STOP_GRACE_S


@pytest.mark.parametrize(
    ("batch_job", "signal_after", "charged"),
    [(True, 0.4, False), (True, 9, True), (False, 0.4, True)],
)
def test_what_the_signal_to_a_batch_job_kills_first_uses_up_no_try(
    stage: Stage, batch_job: bool, signal_after: float, charged: bool
) -> None:
    def killed(slot: SlotId, request: AttemptRequest) -> list[tuple[float, SlotEvent]]:
        stage.inbox.post(Interrupted(signal="SIGTERM"), after=5 + signal_after)
        return [(5, SlotLost(slot=slot, reason="killed by signal 15 (SIGTERM)", exit_code=-15))]

    stage.engine.script = killed
    stage.options = WorkerOptions(batch_job=batch_job)
    stage.run(cells(1))
    assert set(stage.states().values()) == {"pending"}
    finished = stage.ledger.events(kinds={"finished"})
    assert any(event.data["outcome"]["charged"] for event in finished) == charged


def at_path(folder: str, count: int) -> list[Cell]:
    """The same cells of two models, as somebody has them whose models lie in that folder."""
    return [
        sample_cell(n, model=name, digest=name, source=f"{folder}/{name}")
        for name in ("m1", "m2")
        for n in range(count)
    ]


def test_one_whose_models_lie_elsewhere_shares_the_work_with_its_own_paths(
    stage: Stage, person: Person
) -> None:
    person.does(3, lambda: stage.ledger.enroll(at_path("/there", 6)))
    end = stage.run(at_path("/here", 6))
    assert end.progress.states == {"success": 12}
    assert {cell.model.source for cell in stage.engine.cells} == {"/here/m1", "/here/m2"}
    assert end.seconds == pytest.approx(60, abs=2)


class _Planned:
    """What a runner is given, by plans that follow each other in the ledger."""

    def __init__(self, stage: Stage, given: Sequence[Cell]) -> None:
        self._stage, self._number = stage, 0
        self._ever, self._now = list(given), list(given)
        stage.options = WorkerOptions(more=lambda: self._now, yielded=self._yielded)

    def again(self, given: Sequence[Cell]) -> None:
        """Somebody plans again."""
        self._ever += given
        self._now, self._number = list(given), self._number + 1
        hosts = {"lab": [str(cell.fingerprint) for cell in given]}
        self._stage.ledger.record(Plan(number=self._number, hosts=hosts).event())

    def _yielded(self) -> set[str]:
        now = {str(cell.fingerprint) for cell in self._now}
        return {str(cell.fingerprint) for cell in self._ever} - now


def test_what_a_newer_plan_gives_to_others_is_left_to_them(stage: Stage, person: Person) -> None:
    """Two cells run by then, and end; of the others one stays, two go, and one comes."""
    known = cells(6)
    stage.ledger.enroll(known)
    planned = _Planned(stage, known[:5])
    person.does(3, lambda: planned.again([*known[:3], known[5]]))
    end = stage.run(known[:5])
    assert end.progress.states == {"success": 4}
    assert end.progress.total == 4
    assert sorted(stage.states().values()) == ["pending"] * 2 + ["success"] * 4
    assert known[3] not in stage.engine.cells


def test_cells_that_ended_are_not_counted_as_left_to_others(stage: Stage, person: Person) -> None:
    known = cells(6)
    planned = _Planned(stage, known)
    person.does(13, lambda: planned.again(known[2:4]))
    stage.run(known)
    (warning,) = stage.notices_of("warning")
    assert warning.message == "by a newer plan 2 cells are for others, and left to them"


def test_what_was_left_to_others_is_taken_back_by_a_later_plan(
    stage: Stage, person: Person
) -> None:
    known = cells(6)
    planned = _Planned(stage, known)
    person.does(3, lambda: planned.again(known[:3]))
    person.does(6, lambda: planned.again(known))
    assert stage.run(known).progress.states == {"success": 6}


def test_a_runner_to_which_nothing_is_left_ends_with_what_it_runs(
    stage: Stage, person: Person
) -> None:
    known = cells(6)
    planned = _Planned(stage, known)
    person.does(3, lambda: planned.again([]))
    end = stage.run(known)
    assert end.progress.states == {"success": 2}
