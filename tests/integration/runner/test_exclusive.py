"""Cells that nothing else may run beside, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.cell import Cell
from benchfleet.engines.base import AttemptRequest, SlotEvent, SlotId
from benchfleet.runner.resources.shapes import memory_of
from benchfleet.testing.sample_cells import sample_cell
from stage import CPU, GPUS, Stage, good

from .fleets import NOWHERE, host_of, host_ready


def mixed(gpus: int = 0) -> list[Cell]:
    """Of each of two models, three load points and three cells that may have neighbours."""
    return [
        sample_cell(model=model, benchmark=benchmark, subset=f"s{number}", gpus=gpus)
        for model in ("one", "two")
        for benchmark in ("serving", "recall")
        for number in range(3)
    ]


def neighbours(stage: Stage, slot: SlotId) -> list[str]:
    """The slots that are open in the memory of this one."""
    memories = {
        name: {memory_of(device) for device in spec.devices}
        for name, spec in stage.engine.specs.items()
    }
    return [name for name, own in memories.items() if name != slot and own & memories[slot]]


def test_where_each_slot_has_its_own_memory_they_share_the_loaded_model(stage: Stage) -> None:
    end = stage.run(mixed(gpus=1), GPUS)
    assert end.progress.states == {"success": 12}
    models = {
        (slot, cell.model.name)
        for (slot, _), cell in zip(stage.engine.requests, stage.engine.cells, strict=True)
    }
    assert len(models) == len(stage.engine.opened) == 2


def test_where_slots_share_a_memory_nothing_is_open_beside_them(stage: Stage) -> None:
    beside: list[tuple[str, list[str]]] = []

    def notes(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        beside.append((request.cell.workload.benchmark, neighbours(stage, slot)))
        return good(slot, request)

    stage.engine.script = notes
    assert stage.run(mixed(), CPU).progress.states == {"success": 12}
    assert not any(others for benchmark, others in beside if benchmark == "serving")
    assert any(others for benchmark, others in beside if benchmark == "recall")


def test_a_host_that_joins_and_whose_slots_share_a_memory_has_nothing_beside_them(
    stage: Stage,
) -> None:
    hosts, beside = set[str](), list[str]()

    def notes(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if request.cell.workload.benchmark == "serving":
            hosts.add(host_of(stage, slot))
            beside.extend(neighbours(stage, slot))
        return good(slot, request)

    stage.engine.far, stage.engine.script = ("lab1",), notes
    stage.inbox.post(host_ready("lab1"))
    stage.inbox.post(host_ready("lab2", 2), after=5)
    assert stage.run(mixed(), NOWHERE).progress.states == {"success": 12}
    assert hosts == {"lab1", "lab2"}
    assert beside == []
