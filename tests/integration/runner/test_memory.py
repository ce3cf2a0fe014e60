"""What the runner does differently where a cell ran out of memory, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.domain.attempt import Advice
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Device
from benchfleet.engines.base import AttemptRequest, Failed, SlotEvent, SlotId, Started
from benchfleet.runner.events import Interrupted
from benchfleet.runner.resources.shapes import Pool, memory_of
from benchfleet.testing.sample_cells import sample_cell
from stage import CPU, GPUS, Stage, advised, cells, good, mixed_gpus


def no_memory(slot: SlotId, request: AttemptRequest, *, stage: Any = "benchmark") -> Failed:
    failure = Failure(stage=stage, kind="oom", message="no room", retryable=True)
    return Failed(slot=slot, attempt=request.attempt, failure=failure)


def batched(cell: Cell, size: int) -> Cell:
    return replace(cell, workload=replace(cell.workload, batch_size=size))


def crowd(stage: Stage, slot: SlotId) -> int:
    """The open slots in the memories of this one, itself among them."""
    memories = {
        name: {memory_of(device) for device in spec.devices}
        for name, spec in stage.engine.specs.items()
    }
    return sum(not memories[slot].isdisjoint(other) for other in memories.values())


def memory_on(stage: Stage, slot: SlotId) -> int:
    return min(device.memory for device in stage.engine.specs[slot].devices)


def test_a_cell_that_runs_out_of_memory_gets_half_the_batch_at_once_and_loses_no_try(
    stage: Stage,
) -> None:
    sizes: list[int] = []

    def fits_in_two(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        sizes.append(request.batch_size)
        return [(1, no_memory(slot, request))] if request.batch_size > 2 else good(slot, request)

    stage.engine.script = fits_in_two
    end = stage.run([batched(sample_cell(tries=1), 9)])
    assert end.progress.states.get("success") == 1
    assert sizes == [9, 4, 2]
    assert end.seconds == pytest.approx(12)
    output = [(n.data["retry_in"], n.data["differently"]) for n in stage.notices_of("cell_failed")]
    assert output == [(0, "with batch size 4"), (0, "with batch size 2")]
    (record,) = stage.ledger.cells()
    assert (record.attempt, record.tries) == (3, 1)
    sealed = json.loads((stage.layout.published(record.path) / "cell.json").read_text())
    assert sealed["provenance"]["effective_batch_size"] == 2
    assert sealed["cell"]["workload"]["batch_size"] == 9


@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_a_cell_that_does_not_fit_beside_another_gets_a_slot_alone(
    stage: Stage, device: Any
) -> None:
    gpu = Device(kind="gpu", index=0, memory=8 * 10**9)
    pool = Pool(devices=(gpu,), slots=2) if device == "gpu" else CPU
    alone: list[str] = []

    def fits_alone(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if "benchmark-0" not in request.cell.id:
            return good(slot, request)
        if crowd(stage, slot) > 1:
            return [(3, no_memory(slot, request))]
        alone.append(slot)
        return good(slot, request)

    stage.engine.script = fits_alone
    end = stage.run(cells(6), pool)
    assert end.progress.states["success"] == 6
    assert len(alone) == 1
    assert [n.data["differently"] for n in stage.notices_of("cell_failed")] == ["alone"]
    assert stage.engine.requests[-1][1].endswith("benchmark-0")  # when it holds up nobody else


def test_a_cell_that_does_not_fit_on_a_small_gpu_gets_a_large_one(stage: Stage) -> None:
    ran: list[int] = []

    def fits_on_large(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        ran.append(memory_on(stage, slot) // 10**9)
        return [(1, no_memory(slot, request))] if ran[-1] < 40 else good(slot, request)

    stage.engine.script = fits_on_large
    end = stage.run(cells(1), mixed_gpus())
    assert end.progress.states["success"] == 1
    assert ran == [24, 80]
    assert stage.notices_of("cell_failed")[0].data["differently"] == "on at least 26.4 GB"


def test_a_cell_that_fits_nowhere_fails_for_good_and_says_what_was_tried(stage: Stage) -> None:
    stage.engine.script = lambda slot, request: [(1, no_memory(slot, request))]
    end = stage.run([batched(cell, 4) for cell in cells(2, tries=2)], mixed_gpus(4))
    assert end.progress.states["failed"] == 2
    for record in stage.ledger.cells():
        assert record.outcome is not None
        assert record.tries == 2
        assert record.outcome.why.startswith("benchmark: oom (no room); failed ")
        assert "with batch size 1" in record.outcome.why
        assert record.outcome.why.endswith("on at least 26.4 GB")


def test_what_was_advised_survives_the_runner_and_other_failures(stage: Stage) -> None:
    sizes: list[int] = []
    kinds = iter(["oom", "slot_lost", "oom"])

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        sizes.append(request.batch_size)
        kind: Any = next(kinds, None)
        if kind is None:
            return good(slot, request)
        if kind == "oom":
            stage.inbox.post(Interrupted(signal="SIGINT"), after=1.9)
        failure = Failure(stage="benchmark", kind=kind, message="no", retryable=True)
        return [
            (0, Started(slot=slot, attempt=request.attempt, stage="benchmark")),
            (2, Failed(slot=slot, attempt=request.attempt, failure=failure)),
        ]

    stage.engine.script = script
    wanted = [batched(sample_cell(), 8)]
    for _ in range(3):
        end = stage.run(wanted)
    assert end.progress.states["success"] == 1
    assert sizes == [8, 4, 4, 2]


def test_a_slot_that_is_not_what_another_runner_was_advised_gives_the_cell_back(
    stage: Stage,
) -> None:
    ran: dict[str, tuple[int, int]] = {}

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        ran[request.cell.id.rpartition("-")[2]] = (crowd(stage, slot), memory_on(stage, slot))
        return good(slot, request)

    stage.engine.script = script
    wanted = cells(4)
    advised(stage, wanted[0], Advice(alone=True))
    advised(stage, wanted[1], Advice(vram=50 * 10**9))
    end = stage.run(wanted, mixed_gpus(4))
    assert end.progress.states["success"] == 4
    assert ran["0"][0] == 1
    assert ran["1"][1] == 80 * 10**9


def test_what_no_machine_here_has_is_done_without_after_all_else(stage: Stage) -> None:
    wanted = cells(3)
    advised(stage, wanted[0], Advice(vram=10**12))
    end = stage.run(wanted, Pool(devices=GPUS.devices[:1], slots=1))
    assert end.progress.states["success"] == 3
    assert stage.engine.requests[-1][1].endswith("benchmark-0")


_CROWDED = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 9),
        "fits_batch": st.integers(0, 9),
        "fits_crowd": st.integers(1, 4),
        "fits_memory": st.sampled_from([0, 20, 60, 100]),
        "vram": st.sampled_from([0, 5, 30]),
        "gpus": st.integers(0, 2),
    }
)


@settings(max_examples=80, deadline=None)
@given(wanted=st.lists(_CROWDED, min_size=1, max_size=5),
       sizes=st.lists(st.sampled_from([8, 24, 80]), min_size=0, max_size=3),
       slots=st.integers(1, 6))  # fmt: skip
def test_a_run_ends_whatever_memory_its_cells_take(
    tmp_path_factory: pytest.TempPathFactory,
    wanted: list[dict[str, int]],
    sizes: list[int],
    slots: int,
) -> None:
    stage = Stage(tmp_path_factory.mktemp("run"))
    asked = {
        str(n): batched(sample_cell(n, gpus=w["gpus"], vram=w["vram"] * 10**9, tries=2), w["batch"])
        for n, w in enumerate(wanted)
    }

    def fits(slot: SlotId, request: AttemptRequest) -> bool:
        cell = wanted[int(request.cell.id.rpartition("-")[2])]
        enough = not sizes or memory_on(stage, slot) >= cell["fits_memory"] * 10**9
        few = crowd(stage, slot) <= cell["fits_crowd"]
        return enough and few and request.batch_size <= cell["fits_batch"]

    stage.engine.script = lambda slot, request: (
        good(slot, request) if fits(slot, request) else [(1, no_memory(slot, request))]
    )
    gpus = [Device(kind="gpu", index=n, memory=gb * 10**9) for n, gb in enumerate(sizes)]
    devices = tuple(gpus) or CPU.devices
    end = stage.run(list(asked.values()), Pool(devices=devices, slots=max(slots, len(devices))))
    states = {record.id.rpartition("-")[2]: record.state for record in stage.ledger.cells()}
    pending = {cell.id.rpartition("-")[2] for cell, _ in end.impossible}
    for number, cell in enumerate(wanted):
        can = cell["fits_batch"] > 0 and (not sizes or max(sizes) >= cell["fits_memory"])
        if str(number) in pending:
            assert states[str(number)] == "pending"
        elif can and cell["gpus"] < 2:
            assert states[str(number)] == "success"
        else:
            assert states[str(number)] in ("success", "failed")
