"""A run from its first cell to its last: what ends well, what fails and is tried again,
in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.engines.base import (
    AttemptRequest,
    Done,
    Failed,
    FileSent,
    SlotEvent,
    SlotId,
    SlotLost,
)
from benchfleet.runner.events import LedgerDiskFull, RunnerEvent
from benchfleet.runner.resources.shapes import Pool
from benchfleet.testing.sample_cells import sample_cell
from stage import CPU, Stage, VirtualEventQueue, cells, good, sample


def test_every_cell_is_run_once_and_published(stage: Stage) -> None:
    end = stage.run(cells(5))
    assert end.progress.states == {"success": 5}
    assert len(stage.engine.requests) == 5
    for path in stage.states():
        folder = stage.layout.published(path)
        assert {file.name for file in folder.iterdir()} == {
            "cell.json", "config.json", "log.txt", "metrics.json", "raw_results.csv",
            "samples.jsonl",
        }  # fmt: skip
    assert list(stage.layout.attempts.glob("*")) == []


def test_two_slots_halve_the_time(stage: Stage) -> None:
    assert stage.run(cells(6)).seconds == pytest.approx(30)


def test_a_second_run_runs_nothing_and_opens_no_slot(stage: Stage) -> None:
    stage.run(cells(3))
    stage.engine.opened.clear()
    end = stage.run(cells(3))
    assert end.progress.reused == 3
    assert stage.engine.opened == []


def test_no_more_slots_are_opened_than_cells_wait(stage: Stage) -> None:
    stage.run(cells(1))
    assert len(stage.engine.opened) == 1


def test_a_slot_takes_cells_of_the_model_in_its_memory_first(stage: Stage) -> None:
    one_slot = Pool(devices=CPU.devices[:1], slots=1)
    mixed = [sample_cell(n, model=name) for n in range(3) for name in ("a", "b")]
    stage.run(mixed, one_slot)
    models = [cell.split("/")[0] for _, cell in stage.engine.requests]
    assert models == ["a", "a", "a", "b", "b", "b"]


def test_a_transient_failure_is_tried_again_after_its_delay(stage: Stage) -> None:
    failure = Failure(stage="benchmark", kind="oom", message="no room", retryable=True)

    def once(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) == 1:
            return [(1, Failed(slot=slot, attempt=request.attempt, failure=failure))]
        return good(slot, request)

    stage.engine.script = once
    end = stage.run(cells(1))
    assert end.progress.states.get("success") == 1
    (output,) = stage.notices_of("cell_failed")
    assert (output.data["failure"], output.data["retry_in"]) == (["benchmark", "oom"], 2.0)
    assert end.seconds >= 13


def test_a_cell_that_always_fails_ends_failed_and_stops_no_other(stage: Stage) -> None:
    failure = Failure(stage="benchmark", kind="slot_lost", message="gone", retryable=True)

    def first_fails(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if "benchmark-0" in request.cell.id:
            return [(1, Failed(slot=slot, attempt=request.attempt, failure=failure))]
        return good(slot, request)

    stage.engine.script = first_fails
    end = stage.run(cells(3))
    assert (end.progress.states["failed"], end.progress.states["success"]) == (1, 2)
    assert sum("benchmark-0" in cell for _, cell in stage.engine.requests) == 3
    (record,) = stage.ledger.cells(states=["failed"])
    assert record.outcome is not None
    assert record.outcome.failure is not None
    assert record.outcome.failure.message == "gone"
    kept = stage.layout.attempts_of(record.fingerprint)
    assert len(list(kept.glob("*/failure.json"))) == 3


def test_samples_kept_make_a_failed_cell_partial_and_serve_the_next_try(stage: Stage) -> None:
    failure = Failure(stage="benchmark", kind="error", message="no")
    handed: list[bytes] = []

    def fails_after_one(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        handed.append(request.recorded)
        return [
            (1, sample(request, slot, 0)),
            (2, Failed(slot=slot, attempt=request.attempt, failure=failure)),
        ]

    def goes_on(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        handed.append(request.recorded)
        return good(slot, request)

    stage.engine.script = fails_after_one
    stage.run(cells(1))
    assert list(stage.states().values()) == ["partial"]
    (record,) = stage.ledger.cells()
    stage.ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))
    stage.engine.script = goes_on
    stage.run(cells(1))
    assert handed[0] == b""
    assert json.loads(handed[1])["index"] == 0
    published = stage.layout.published(record.path)
    lines = (published / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in lines] == [0, 1]
    sealed = json.loads((published / "cell.json").read_text())
    assert sealed["provenance"]["resumed_samples"] == 1


def test_a_sample_is_on_the_disk_when_it_has_come(stage: Stage) -> None:
    seen: list[tuple[float, int]] = []
    began = stage.clock()

    class Looking(VirtualEventQueue):
        def take(self, wait: float) -> RunnerEvent | None:
            files = stage.layout.attempts.glob("*/*/samples.jsonl")
            kept = sum(len(file.read_text().splitlines()) for file in files)
            if kept > len(seen):
                seen.append((self.clock() - began, kept))
            return super().take(wait)

    stage.inbox = stage.engine.inbox = Looking(stage.clock)
    stage.run(cells(1))
    assert seen == [(4.0, 1), (8.0, 2)]


def test_a_slot_that_dies_is_replaced_and_its_cell_tried_again(stage: Stage) -> None:
    def dies_once(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) == 1:
            return [(1, SlotLost(slot=slot, reason="killed by signal 9 (SIGKILL)", exit_code=-9))]
        return good(slot, request)

    stage.engine.script = dies_once
    end = stage.run(cells(1))
    assert end.progress.states.get("success") == 1
    assert len(stage.engine.opened) == 2
    assert "SIGKILL" in stage.notices_of("cell_failed")[0].message


def test_a_score_that_is_no_number_is_a_bad_result(stage: Stage) -> None:
    score = {"overall": float("nan"), "per_sample": [], "tasks": {}, "summary": {}}
    stage.engine.script = lambda slot, request: [
        (1, Done(slot=slot, attempt=request.attempt, score=score))
    ]
    stage.run(cells(1))
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.failure is not None
    assert (record.outcome.failure.stage, record.outcome.failure.kind) == ("collect", "bad_result")


@pytest.mark.parametrize("name", ["../escaped", "cell.json", "samples.jsonl", "", "a/../b"])
def test_a_slot_cannot_write_where_it_should_not(stage: Stage, name: str) -> None:
    stage.engine.script = lambda slot, request: [
        (1, FileSent(slot=slot, attempt=request.attempt, name=name, data=b"evil")),
        *good(slot, request),
    ]
    stage.run(cells(1))
    assert list(stage.states().values()) == ["failed"]
    assert not (stage.folder.parent / "escaped").exists()


def test_slots_that_never_start_end_the_run_with_the_reason(stage: Stage) -> None:
    stage.engine.dead_on_arrival = "all"
    end = stage.run(cells(2))
    assert "slots do not start" in end.broken
    assert end.progress.states == {"pending": 2}


def test_the_first_true_reason_is_not_overwritten_by_later_ones(stage: Stage) -> None:
    kinds = iter(["host_lost", "gpu_fault", "slot_lost", "timeout"])

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        kind: Any = next(kinds)
        failure = Failure(stage="benchmark", kind=kind, message=f"by {kind}", retryable=True)
        return [(1, Failed(slot=slot, attempt=request.attempt, failure=failure))]

    stage.engine.script = script
    stage.run(cells(1))
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.why == (
        "benchmark: gpu_fault (by gpu_fault); failed 4 times "
        "(1 host_lost, 1 gpu_fault, 1 slot_lost, 1 timeout)"
    )
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == "timeout"
    output = [n.message for n in stage.notices_of("cell_failed")]
    assert output[:3] == [
        f"benchmark: {k} (by {k})" for k in ("host_lost", "gpu_fault", "slot_lost")
    ]
    assert output[3] == record.outcome.why


def test_a_disk_elsewhere_that_is_always_full_ends_its_cell_and_stops_no_other(
    stage: Stage,
) -> None:
    failure = Failure(stage="benchmark", kind="disk_full", message="no room", retryable=True)

    def no_scratch(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if "benchmark-0" in request.cell.id:
            return [(1, Failed(slot=slot, attempt=request.attempt, failure=failure))]
        return good(slot, request)

    stage.engine.script = no_scratch
    end = stage.run(cells(4))
    assert end.progress.states == {"failed": 1, "success": 3}
    assert sum("benchmark-0" in cell for _, cell in stage.engine.requests) == 6
    assert stage.notices_of("warning") == []


def test_the_disk_that_took_no_more_is_named(stage: Stage) -> None:
    stage.inbox.post(LedgerDiskFull(), after=1)
    stage.run(cells(4))
    assert "the disk of the ledger is full" in stage.notices_of("warning")[0].message
