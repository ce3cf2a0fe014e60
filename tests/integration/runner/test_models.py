"""Which slot loads which model, and when none is loaded, in virtual time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from benchfleet.domain.resource import Device
from benchfleet.engines.base import HostReady
from benchfleet.runner.resources.shapes import Pool
from benchfleet.testing.sample_cells import sample_cell
from stage import CPU, Stage

from .timed import ended_before, gpus, lasting


def models_by_slot(stage: Stage) -> dict[str, list[str]]:
    """The models that each slot loaded, in their order."""
    found: dict[str, list[str]] = {}
    for slot, cell in stage.engine.requests:
        models, model = found.setdefault(slot, []), cell.split("/")[0]
        if not models or models[-1] != model:
            models.append(model)
    return found


def test_cold_slots_take_a_model_each_before_two_load_the_same(stage: Stage) -> None:
    wanted = [sample_cell(n, model=m) for m in "abc" for n in range(4)]
    stage.engine.script = lasting({}, load=30.0)
    stage.run(wanted, gpus(3))
    assert sorted(models_by_slot(stage).values()) == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("slots", [4, 16])
def test_a_fleet_loads_each_model_at_most_once_in_a_slot(stage: Stage, slots: int) -> None:
    stage.keeps, stage.renew_every = False, 20.0  # cells last longer than a lease
    draw = random.Random(slots)
    wanted = [sample_cell(n, model=draw.choice("abcdef")) for n in range(12 * slots)]
    times = {cell.workload.name: draw.lognormvariate(3, 1) for cell in wanted}
    stage.engine.script = lasting(times, load=60.0)
    end = stage.run(wanted, gpus(slots))
    assert end.progress.states == {"success": len(wanted)}
    by_slot = models_by_slot(stage).values()
    assert all(len(models) == len(set(models)) for models in by_slot)
    assert sum(map(len, by_slot)) < 3 * slots  # no slot has half of the models


def test_nothing_is_loaded_for_a_tail_that_the_slot_that_has_it_ends_sooner(stage: Stage) -> None:
    stage.renew_every = 20.0  # cells last longer than a lease
    wanted = [sample_cell(n, model="a") for n in range(2)]
    wanted += [sample_cell(n, model="b") for n in range(5)]
    stage.engine.script = lasting({}, load=100.0)
    end = stage.run(wanted, gpus(2))
    assert sorted(models_by_slot(stage).values()) == [["a"], ["b"]]
    assert end.seconds == pytest.approx(150, abs=2)


def test_a_slot_that_is_at_a_long_cell_does_not_keep_its_model_from_an_idle_one(
    stage: Stage,
) -> None:
    stage.renew_every = 20.0  # a cell lasts longer than a lease
    long = sample_cell(1, model="a", priority=1)
    wanted = [sample_cell(0, model="a", priority=2), long, sample_cell(2, model="a")]
    stage.engine.script = lasting({"benchmark-1": 5000.0, "b": 30.0}, load=60.0)
    end = stage.run([*wanted, sample_cell(3, model="b", priority=2)], gpus(2))
    assert end.progress.states == {"success": 4}
    assert sorted(models_by_slot(stage).values()) == [["a"], ["b", "a"]]
    assert end.seconds == pytest.approx(5070, abs=5)


def test_a_slot_that_was_opened_for_a_model_with_late_cells_takes_one(stage: Stage) -> None:
    """Another model's times are far too short for it, so it is opened once a cell is late."""
    stage.renew_every = 20.0  # cells last longer than a lease
    short = {f"benchmark-{n}": 0.2 for n in range(5)}
    ended_before(stage, [sample_cell(n, model="quick") for n in range(4)], short)
    ended_before(stage, [sample_cell(4, model="a")], short, load=5.0)
    wanted = [sample_cell(n, model="a") for n in range(4)]
    stage.engine.script = lasting({"a": 100.0}, load={"a": 5.0})
    end = stage.run(wanted, gpus(2))
    assert sorted(models_by_slot(stage).values()) == [["a"], ["a"]]
    assert end.seconds == pytest.approx(215, abs=15)


@pytest.mark.parametrize(("load", "ends"), [(250.0, 1110), (550.0, 1710), (650.0, 1850)])
def test_a_model_is_loaded_again_at_once_or_not_at_all_where_times_are_known(
    stage: Stage, load: float, ends: float
) -> None:
    stage.renew_every = 20.0  # a cell lasts longer than a lease
    wanted = [sample_cell(n, model="a") for n in range(2)] + [sample_cell(2, model="b")]
    seconds = {"benchmark-0": 600.0, "benchmark-1": 600.0}
    ended_before(stage, [replace(cell, repeat=1) for cell in wanted], seconds, load=load)
    stage.engine.script = lasting(seconds, load={"a": load, "b": load})
    end = stage.run(wanted, gpus(2))
    assert end.progress.states == {"success": len(wanted)}
    assert end.seconds == pytest.approx(ends, abs=5)


def test_of_many_idle_slots_few_load_for_the_cells_behind_a_long_one(stage: Stage) -> None:
    stage.keeps, stage.renew_every = False, 20.0  # a cell lasts longer than a lease
    wanted = [sample_cell(n, model="a", priority=int(n < 2)) for n in range(9)]
    others = [sample_cell(10 + n, model=f"b{n}", priority=2) for n in range(7)]
    wanted += others
    loads = dict.fromkeys((cell.model.name for cell in wanted), 60.0)
    stage.engine.script = lasting(
        {"benchmark-1": 2000.0, **{cell.model.name: 100.0 for cell in others}}, loads
    )
    end = stage.run(wanted, gpus(8))
    assert end.progress.states == {"success": len(wanted)}
    assert end.seconds == pytest.approx(2070, abs=15)
    assert Counter(m for models in models_by_slot(stage).values() for m in models)["a"] == 2


@pytest.mark.parametrize(
    ("slots", "drawn", "loads", "ends"),
    [  # by model: cells, seconds of each and of the load; how often it is loaded; the end
        (8, {"a": (12, 16, 3), "b": (3, 13, 107), "c": (12, 9, 85)}, {"a": 4, "b": 1, "c": 3}, 146),
        (6, {"a": (24, 9, 17), "b": (2, 49, 68)}, {"a": 5, "b": 1}, 166),
        (5, {"a": (18, 10, 16), "b": (25, 5, 164), "c": (5, 11, 6), "d": (19, 7, 22)},
         {"a": 2, "b": 2, "c": 1, "d": 1}, 229),
    ],
)  # fmt: skip
def test_a_first_run_loads_nothing_that_the_slots_that_load_it_end_sooner(
    stage: Stage,
    slots: int,
    drawn: Mapping[str, tuple[int, int, int]],
    loads: Mapping[str, int],
    ends: float,
) -> None:
    stage.keeps, stage.renew_every = False, 20.0  # cells last longer than a lease
    wanted = [sample_cell(n, model=m) for m, (count, _, _) in drawn.items() for n in range(count)]
    times = {model: float(each) for model, (_, each, _) in drawn.items()}
    stage.engine.script = lasting(times, {model: load for model, (_, _, load) in drawn.items()})
    end = stage.run(wanted, gpus(slots))
    assert end.progress.states == {"success": len(wanted)}
    assert Counter(m for models in models_by_slot(stage).values() for m in models) == loads
    assert end.seconds <= ends


def test_a_slot_without_a_gpu_does_not_keep_its_model_from_cells_that_need_one(
    stage: Stage,
) -> None:
    stage.renew_every = 20.0  # a cell lasts longer than a lease
    stage.engine.far, seconds = ("lab",), {"benchmark-0": 1000.0, "benchmark-1": 10.0}
    wanted = [sample_cell(n, model="m", gpus=n) for n in range(2)]
    ended_before(stage, [replace(cell, repeat=1) for cell in wanted], seconds, load=500.0)
    stage.engine.script = lasting(seconds, load=500.0)
    lab = gpus(1, host="lab").devices
    stage.inbox.post(HostReady(host="lab", devices=lab, slots=1, threads=1, provenance={}))
    end = stage.run(wanted, Pool(devices=CPU.devices[:1], slots=1))
    assert end.progress.states == {"success": 2}
    assert end.seconds < 1600  # not one after the other


def test_an_idle_slot_gives_way_to_cells_whose_model_only_slots_without_a_gpu_have(
    stage: Stage,
) -> None:
    stage.renew_every = 20.0  # cells last longer than a lease
    both, small, one = (
        sample_cell(n, model="m", gpus=count, priority=9 - n) for n, count in enumerate((2, 0, 1))
    )
    stage.engine.far = ("lab",)
    stage.engine.script = lasting({}, load=60.0)
    cpu = Device(kind="cpu", index=0, host="lab")
    stage.inbox.post(
        HostReady(host="lab", devices=(cpu,), slots=1, threads=1, provenance={}), after=0.1
    )
    end = stage.run([both, small, one], gpus(2))
    assert end.progress.states == {"success": 3}
