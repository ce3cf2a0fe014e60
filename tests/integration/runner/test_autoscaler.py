"""Slots that share a memory get more while there is room and fewer where it ran out, in virtual
time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Device, MemoryState
from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.engines.base import AttemptRequest, Failed, HostReady, Measured, SlotEvent, SlotId
from benchfleet.runner.resources.autoscale import SETTLE_S
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.run_end import RunEnd
from stage import Stage, cells, good

GB = 10**9
CPUS = tuple(Device(kind="cpu", index=i) for i in range(8))
GPU = Device(kind="gpu", index=0, memory=80 * GB)
FIXED = Pool(devices=CPUS, slots=8)


class Memory:
    """A memory of 80 GB in which each slot holds some, and out of which cells run."""

    def __init__(self, stage: Stage, *, name: str = "cpu", slot: int = 10, busy: float = 0.5):
        self.stage, self.name, self.slot, self.busy = stage, name, slot, busy
        self.open_slots: list[int] = []  # slots open whenever a cell began
        self.asked = 0

    def measure(self, gpus: bool, tell: Callable[[Mapping[str, MemoryState]], None]) -> None:
        self.asked += 1
        free = max(0, 80 - self.slot * len(self.stage.engine.specs)) * GB
        tell({self.name: MemoryState(total=80 * GB, free=free, busy=self.busy)})

    def run(self, pool: Pool, count: int, **named: Any) -> RunEnd:
        self.stage.local_host = LocalHost(measure=self.measure)
        return self.stage.run(cells(count, **named), pool)

    def seen(self, slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        self.open_slots.append(len(self.stage.engine.specs))
        return good(slot, request)


def runs_out(
    fits: int,
) -> Callable[[Memory, SlotId, AttemptRequest], Sequence[tuple[float, SlotEvent]]]:
    """Cells of which so many fit into the memory at a time."""

    def script(
        memory: Memory, slot: SlotId, request: AttemptRequest
    ) -> Sequence[tuple[float, SlotEvent]]:
        memory.open_slots.append(len(memory.stage.engine.specs))
        if memory.open_slots[-1] <= fits:
            return good(slot, request)
        failure = Failure(stage="benchmark", kind="oom", message="no room", retryable=True)
        return [(3, Failed(slot=slot, attempt=request.attempt, failure=failure))]

    return script


def changes(stage: Stage) -> list[str]:
    return [notice.message for notice in stage.notices_of("slots_changed")]


def test_slots_grow_while_there_is_room_for_one_more(stage: Stage) -> None:
    memory = Memory(stage)
    stage.engine.script = memory.seen
    end = memory.run(Pool(devices=CPUS, slots=8, begin=2), 60)
    assert end.progress.states == {"success": 60}
    assert memory.open_slots[:4] == [2, 2, 2, 2]
    assert max(memory.open_slots) == 6  # the seventh would leave less than is to stay free
    assert changes(stage) == [
        "cpu: 4 slots at a time instead of 2: 60.0 of 80.0 GB are free",
        "cpu: 6 slots at a time instead of 4: 40.0 of 80.0 GB are free",
    ]


def test_slots_on_a_gpu_grow_up_to_the_limit(stage: Stage) -> None:
    memory = Memory(stage, name="gpu:0", slot=1)
    stage.engine.script = memory.seen
    memory.run(Pool(devices=(GPU,), slots=3, begin=1), 60, gpus=1)
    assert max(memory.open_slots) == 3


def test_slots_that_grew_too_many_get_fewer_and_never_as_many_again(stage: Stage) -> None:
    memory = Memory(stage, slot=2)
    script = runs_out(3)
    stage.engine.script = lambda slot, request: script(memory, slot, request)
    end = memory.run(Pool(devices=CPUS, slots=8, begin=2), 60, tries=1)
    assert end.progress.states == {"success": 60}
    assert max(memory.open_slots) == 4
    assert changes(stage)[0].startswith("cpu: 4 slots at a time instead of 2")
    assert "cpu: 3 slots at a time instead of 4: memory ran out with 4" in changes(stage)
    assert end.seconds > 5 * SETTLE_S


class Elsewhere:
    """A machine of 80 GB on which each slot holds 10, as its slots tell while they run cells."""

    def __init__(self, stage: Stage, devices: Sequence[Device], *, slots: int, begin: int):
        self.stage, self.open_slots = stage, list[int]()
        stage.engine.script, stage.engine.far = self.script, ("lab",)
        stage.inbox.post(
            HostReady(
                host="lab", devices=tuple(devices), slots=slots, begin=begin, threads=1,
                provenance={},
            )
        )  # fmt: skip

    def script(self, slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        there = [s for s in self.stage.engine.specs.values() if s.host == "lab"]
        self.open_slots.append(len(there))
        read = Measured(slot=slot, attempt=request.attempt, reading=self.reading(len(there)))
        return [*((float(second), read) for second in range(1, 10)), *good(slot, request)]

    def reading(self, slots: int) -> Reading:
        own, free = 10 * GB, (80 - 10 * slots) * GB
        return Reading(at=0.0, ram=own, total=80 * GB, free=free, busy=0.5)


class ElsewhereOnGpu(Elsewhere):
    def reading(self, slots: int) -> Reading:
        gpu = GpuReading(index=0, total=80 * GB, memory=10 * slots * GB, utilisation=50.0)
        return Reading(at=0.0, gpus=(gpu,))


@pytest.mark.parametrize("gpu", [False, True])
def test_slots_on_another_machine_grow_by_what_its_slots_tell(stage: Stage, gpu: bool) -> None:
    stage.keeps = False
    if gpu:
        lab: Elsewhere = ElsewhereOnGpu(stage, [replace(GPU, host="lab")], slots=8, begin=1)
    else:
        lab = Elsewhere(stage, [replace(cpu, host="lab") for cpu in CPUS], slots=8, begin=2)
    end = stage.run(cells(80, gpus=int(gpu)), Pool(devices=(), slots=0))
    assert end.progress.states == {"success": 80}
    assert max(lab.open_slots) == 6  # the seventh would leave less than is to stay free
    name = "lab/gpu:0" if gpu else "lab/cpu"
    assert f"{name}: 6 slots at a time instead of 4: 40.0 of 80.0 GB are free" in changes(stage)


def test_slots_that_were_asked_for_get_fewer_where_two_cells_ran_out(stage: Stage) -> None:
    memory = Memory(stage)
    script = runs_out(4)
    stage.engine.script = lambda slot, request: script(memory, slot, request)
    end = memory.run(FIXED, 60, tries=1)
    assert end.progress.states == {"success": 60}
    assert max(memory.open_slots) == 8
    assert max(memory.open_slots[-20:]) <= 4
    assert not memory.asked
    assert any(text.endswith("memory ran out with 8") for text in changes(stage))


def test_one_cell_that_takes_too_much_costs_the_others_no_slot(stage: Stage) -> None:
    memory = Memory(stage)
    script = runs_out(1)

    def one_is_large(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if "benchmark-0" in request.cell.id:
            return script(memory, slot, request)
        return memory.seen(slot, request)

    stage.engine.script = one_is_large
    end = memory.run(FIXED, 33)
    assert end.progress.states == {"success": 33}
    assert not changes(stage)


def test_memory_that_runs_out_under_a_slot_alone_says_nothing_of_others(stage: Stage) -> None:
    script = runs_out(0)
    memory = Memory(stage)
    stage.engine.script = lambda slot, request: script(memory, slot, request)
    memory.run(Pool(devices=CPUS[:1], slots=1), 4, tries=1)
    assert not changes(stage)
