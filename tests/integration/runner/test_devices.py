"""Devices that are busy, fail, or on which the model does not run, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.failure import Failure
from benchfleet.domain.limits import Limits
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    Failed,
    SlotEvent,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
)
from benchfleet.runner.resources.devices import MAX_BAD_STARTS
from benchfleet.runner.resources.quarantine import RETRY_DEVICE_S
from benchfleet.runner.resources.shapes import Pool
from benchfleet.testing.sample_cells import sample_cell
from stage import GPUS, Stage, cells, good


def unfit(stage: Stage, index: int, *, busy: bool, until: float = 1e18) -> list[float]:
    """Slots on this GPU find it unfit until then; when they were opened."""
    opened: list[float] = []
    real = stage.engine.open
    began = stage.clock()

    def open_(spec: SlotSpec) -> None:
        if index in {device.index for device in spec.devices}:
            opened.append(stage.clock() - began)
            if opened[-1] < until:
                why = "gpu:1 is in use: ada: python3 (7)" if busy else "gpu:1: GPU is lost"
                stage.inbox.post(
                    SlotLost(slot=spec.slot, reason=why, exit_code=-9, unfit=(index,), busy=busy)
                )
                return
        real(spec)

    stage.engine.open = open_  # type: ignore[method-assign]
    return opened


def record(stage: Stage, cell: str = "benchmark-0") -> CellRecord:
    return next(one for one in stage.ledger.cells() if cell in one.path)


def test_a_busy_gpu_is_left_alone_said_once_and_the_others_go_on(stage: Stage) -> None:
    opened = unfit(stage, 1, busy=True)
    end = stage.run(cells(20, gpus=1), GPUS)
    assert end.progress.states == {"success": 20}
    assert opened == pytest.approx(
        [0, RETRY_DEVICE_S, 2 * RETRY_DEVICE_S, 3 * RETRY_DEVICE_S], abs=5
    )
    (output,) = stage.warnings("gpu:1 is left alone")
    assert "ada: python3 (7)" in output
    assert not stage.notices_of("slot_lost")
    assert {slot for slot, _ in stage.engine.requests} == {stage.engine.requests[0][0]}


def test_a_run_waits_where_all_gpus_are_busy(stage: Stage) -> None:
    one = Pool(devices=(Device(kind="gpu", index=1),), slots=1)
    opened = unfit(stage, 1, busy=True, until=100)
    end = stage.run(cells(1), one)
    assert end.progress.states == {"success": 1}
    assert len(opened) == 3


def test_a_cell_with_its_own_interpreter_is_given_back_where_its_gpu_is_busy(
    stage: Stage,
) -> None:
    one = Pool(devices=(Device(kind="gpu", index=1),), slots=1)
    first = [sample_cell(0), sample_cell(1, python="/other/python", model="b")]
    real = stage.engine.open
    refused: list[str] = []

    def open_(spec: SlotSpec) -> None:
        if spec.python and not refused:
            refused.append(spec.slot)
            stage.inbox.post(
                SlotLost(slot=spec.slot, reason="in use", exit_code=-9, unfit=(1,), busy=True)
            )
        else:
            real(spec)

    stage.engine.open = open_  # type: ignore[method-assign]
    end = stage.run(first, one)
    assert end.progress.states == {"success": 2}
    assert record(stage, "benchmark-1").tries == 1
    assert refused


def test_a_gpu_that_is_lost_is_left_out_and_its_cells_go_elsewhere(stage: Stage) -> None:
    opened = unfit(stage, 1, busy=False)
    end = stage.run(cells(4, gpus=1), GPUS)
    assert end.progress.states == {"success": 4}
    assert len(opened) == MAX_BAD_STARTS
    (output,) = stage.warnings("left out")
    assert "gpu:1: GPU is lost" in output


def gpu_fails(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
    failure = Failure(stage="benchmark", kind="gpu_fault", message="Xid 79", retryable=True)
    return [
        (1, Failed(slot=slot, attempt=request.attempt, failure=failure, fit=False)),
        (1.1, SlotLost(slot=slot, reason="exit code 0", exit_code=0)),
    ]


def faults(stage: Stage, *names: str) -> Callable[..., Any]:
    """A script in which the first slot's GPU fails under these cells."""

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        devices = stage.engine.specs[slot].devices
        fails = devices[0].index == 0 and any(name in request.cell.id for name in names)
        return gpu_fails(slot, request) if fails else good(slot, request)

    return script


def test_a_gpu_that_fails_under_two_cells_is_left_out(stage: Stage) -> None:
    stage.engine.script = faults(stage, "benchmark")
    end = stage.run(cells(6, gpus=1), GPUS)
    assert end.progress.states == {"success": 6}
    assert stage.warnings("gpu:0 is left out: a GPU failed there under two cells in a row")
    assert sum(spec.devices[0].index == 0 for spec in stage.engine.opened) == 2


def test_slots_that_share_a_gpu_which_is_left_out_take_no_other_cell(stage: Stage) -> None:
    began = stage.clock()
    late: list[str] = []

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if stage.engine.specs[slot].devices[0].index == 1:
            return good(slot, request)
        if stage.clock() - began > 3:
            late.append(request.cell.id)
        return good(slot, request) if slot.endswith("-1") else gpu_fails(slot, request)

    stage.engine.script = script
    end = stage.run(cells(12, gpus=1), Pool(devices=GPUS.devices, slots=6))
    assert end.progress.states == {"success": 12}
    assert stage.warnings("gpu:0 is left out")
    assert late == []


def test_a_cell_that_brings_gpus_down_takes_none_with_it(stage: Stage) -> None:
    stage.engine.script = faults(stage, "benchmark-0")
    one = Pool(devices=GPUS.devices[:1], slots=1)
    end = stage.run(cells(3), one)
    assert end.progress.states == {"success": 2, "failed": 1}
    assert not stage.warnings("left out")


def test_a_run_without_a_gpu_that_works_ends_with_the_reason(stage: Stage) -> None:
    stage.engine.script = faults(stage, "benchmark")
    one = Pool(devices=GPUS.devices[:1], slots=1)
    end = stage.run(cells(3), one)
    assert "a GPU failed" in end.broken
    assert end.progress.states == {"pending": 3}


def test_a_log_that_names_the_reason_is_believed(stage: Stage) -> None:
    def dies(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        Path(request.log).write_text("RuntimeError: CUDA error: uncorrectable ECC error\nAborted\n")
        return [(1, SlotLost(slot=slot, reason="killed by signal 6 (SIGABRT)", exit_code=-6))]

    stage.engine.script = dies
    stage.run([replace(sample_cell(), limits=Limits(tries=1))])
    outcome = record(stage).outcome
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.kind == "gpu_fault"
    assert "uncorrectable ECC" in outcome.failure.message
    assert "Aborted" in outcome.failure.log_tail


def fails_trials(stage: Stage, *indices: int) -> None:
    """The model does not run on these GPUs."""
    real = stage.engine.open

    def open_(spec: SlotSpec) -> None:
        if {device.index for device in spec.devices}.isdisjoint(indices):
            real(spec)
        else:
            why = "model m does not run there (load: oom: no memory)"
            stage.inbox.post(SlotLost(slot=spec.slot, reason=f"its trial failed: {why}", trial=why))

    stage.engine.open = open_  # type: ignore[method-assign]


def test_a_gpu_whose_trial_fails_is_left_out_at_once_and_no_cell_is_charged(stage: Stage) -> None:
    fails_trials(stage, 1)
    end = stage.run(cells(4, gpus=1), GPUS)
    assert end.progress.states == {"success": 4}
    assert [one.attempt for one in stage.ledger.cells()] == [1] * 4
    (output,) = stage.warnings("gpu:1 is left out: its trial failed")
    assert "load: oom: no memory" in output


def test_a_trial_that_fails_on_every_device_ends_the_run_before_any_cell(stage: Stage) -> None:
    fails_trials(stage, 0, 1)
    end = stage.run(cells(2, gpus=1), GPUS)
    assert end.progress.states == {"pending": 2}
    assert "the trial failed on every device: model m does not run there" in end.broken
    assert [one.attempt for one in stage.ledger.cells()] == [0, 0]


def test_a_slot_that_starts_with_a_model_from_its_trial_claims_for_it_first(stage: Stage) -> None:
    found = [sample_cell(0, model="a"), sample_cell(1, model="b")]

    def open_(spec: SlotSpec) -> None:
        stage.engine.specs[spec.slot] = spec
        loaded = found[1].model.load_key
        stage.inbox.post(SlotReady(slot=spec.slot, hello={}, loaded=loaded))

    stage.engine.open = open_  # type: ignore[method-assign]
    stage.run(found, Pool(devices=(Device(kind="cpu", index=0),), slots=1))
    assert [cell for _, cell in stage.engine.requests] == [found[1].id, found[0].id]
