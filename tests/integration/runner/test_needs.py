"""Cells that need several GPUs, much memory or an interpreter of their own, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    Failed,
    SlotEvent,
    SlotId,
)
from benchfleet.runner.resources.shapes import Pool
from benchfleet.testing.sample_cells import sample_cell
from stage import GPUS, Stage, cells, good


def test_wide_cells_take_whole_gpus_and_the_rest_follow(stage: Stage) -> None:
    wanted = [*cells(2), sample_cell(9, gpus=2)]
    end = stage.run(wanted, GPUS)
    assert end.progress.states == {"success": 3}
    assert [len(spec.devices) for spec in stage.engine.opened] == [2, 1, 1]


def test_what_no_slot_here_can_take_is_named_and_the_rest_is_run(stage: Stage) -> None:
    end = stage.run([sample_cell(1, gpus=3), sample_cell(2)], GPUS)
    assert [why for _, why in end.impossible] == ["needs 3 GPUs, this run has 2"]
    assert end.progress.states == {"pending": 1, "success": 1}


def test_a_model_with_its_own_interpreter_gets_a_slot_of_it(stage: Stage) -> None:
    end = stage.run([sample_cell(1), sample_cell(2, model="kv", python="envs/kv/bin/python")])
    assert end.progress.states == {"success": 2}
    assert {spec.python for spec in stage.engine.opened} == {"", "envs/kv/bin/python"}


def test_an_interpreter_that_does_not_start_fails_its_cell_only(stage: Stage) -> None:
    stage.engine.dead_on_arrival = "nowhere/python"
    end = stage.run([sample_cell(1), sample_cell(2, model="kv", python="nowhere/python")])
    assert end.progress.states == {"success": 1, "failed": 1}
    (record,) = stage.ledger.cells(states=["failed"])
    assert record.outcome is not None
    assert "nowhere/python" in str(record.outcome.failure)


_NEEDS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0, 5, 30, 60])), min_size=1, max_size=6
)


@settings(max_examples=60, deadline=None)
@given(needs=_NEEDS, sizes=st.lists(st.sampled_from([8, 24, 80]), min_size=1, max_size=4),
       slots=st.integers(1, 6), failing=st.integers(0, 2))  # fmt: skip
def test_a_run_ends_whatever_its_cells_need(
    tmp_path_factory: pytest.TempPathFactory,
    needs: list[tuple[int, int]],
    sizes: list[int],
    slots: int,
    failing: int,
) -> None:
    stage = Stage(tmp_path_factory.mktemp("run"))
    failure = Failure(stage="benchmark", kind="slot_lost", message="no", retryable=True)
    tries: dict[str, int] = {}

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        tries[request.cell.id] = tries.get(request.cell.id, 0) + 1
        if tries[request.cell.id] <= failing:
            return [(1, Failed(slot=slot, attempt=request.attempt, failure=failure))]
        return good(slot, request)

    stage.engine.script = script
    devices = tuple(Device(kind="gpu", index=n, memory=gb * 10**9) for n, gb in enumerate(sizes))
    wanted = [sample_cell(n, gpus=g, vram=gb * 10**9) for n, (g, gb) in enumerate(needs)]
    end = stage.run(wanted, Pool(devices=devices, slots=max(slots, 1)))
    possible = len(wanted) - len(end.impossible)
    assert end.progress.states.get("success", 0) == possible
    assert end.progress.states.get("pending", 0) == len(end.impossible)


def test_a_device_on_which_slots_do_not_start_is_left_out(stage: Stage) -> None:
    stage.engine.dead_devices = {1}
    end = stage.run(cells(4), GPUS)
    assert end.progress.states["success"] == 4
    assert "gpu:1 is left out" in stage.notices_of("warning")[0].message
    assert end.broken == ""
