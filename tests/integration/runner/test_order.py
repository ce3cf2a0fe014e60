"""Which cell goes first, and which slot has room for it, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.engines.base import AttemptRequest, Failed, SlotEvent, SlotId
from benchfleet.policies.by_time import LongestFirst, ShortestFirst
from benchfleet.policies.fifo import Fifo
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, cells

from .timed import GB, Script, ended_before, gpus, lasting, ran


@pytest.mark.parametrize("slots", [8, 24, 64])
def test_longest_first_ends_uneven_cells_near_the_best_bound(stage: Stage, slots: int) -> None:
    stage.keeps, stage.renew_every = False, 20.0  # cells last longer than a lease
    draw = random.Random(slots)
    wanted = cells(8 * slots)
    times = {cell.workload.name: draw.lognormvariate(4, 1) for cell in wanted}
    ended_before(stage, [replace(cell, repeat=1) for cell in wanted], times)
    stage.engine.script, stage.policy = lasting(times), LongestFirst()
    end = stage.run(wanted, gpus(slots))
    assert end.progress.states == {"success": len(wanted)}
    assert end.seconds <= 1.05 * max(sum(times.values()) / slots, *times.values())


def test_a_larger_priority_goes_before_the_model_in_memory(stage: Stage) -> None:
    wanted = [sample_cell(n, model="a") for n in range(3)]
    wanted += [sample_cell(n, model="b", priority=1) for n in range(3)]
    stage.run(wanted, gpus(1))
    assert [cell.split("/")[0] for _, cell in stage.engine.requests] == [*"bbbaaa"]


TIMES = {"benchmark-0": 30.0, "benchmark-1": 10.0, "benchmark-2": 40.0, "benchmark-3": 20.0}


@pytest.mark.parametrize(
    ("policy", "order"),
    [(None, "2031"), (LongestFirst(), "2031"), (ShortestFirst(), "1302"), (Fifo(), "0123")],
)
def test_known_times_order_the_cells_as_the_policy_says(
    stage: Stage, policy: object, order: str
) -> None:
    ended_before(stage, cells(4, repeat=1), TIMES)
    stage.policy = policy  # type: ignore[assignment]
    stage.engine.script = lasting(TIMES)
    stage.run(cells(4), gpus(1))
    assert ran(stage) == [f"benchmark-{n}" for n in order]


def test_what_is_learned_in_a_run_orders_the_rest_of_it(stage: Stage) -> None:
    wanted = [sample_cell(n, repeat=r, repeats=True) for r in range(2) for n in range(3)]
    stage.policy = LongestFirst()
    stage.engine.script = lasting({"benchmark-0": 10.0, "benchmark-1": 20.0, "benchmark-2": 60.0})
    stage.run(wanted, gpus(1))
    names = [cell.split("/", 2)[2] for _, cell in stage.engine.requests]
    assert names.index("benchmark-2/r1") < names.index("benchmark-0/r1")


def test_slots_on_one_gpu_never_need_more_memory_than_it_has(stage: Stage) -> None:
    sizes = {"a": 10, "b": 6, "c": 3}
    wanted = [
        sample_cell(n, model=m, gpus=1, vram=size * GB)
        for m, size in sizes.items()
        for n in range(4)
    ]
    held: dict[str, int] = {}
    most = 0
    last = lasting({"a": 7.0, "b": 11.0, "c": 5.0}, load=2.0)

    def script(slot: SlotId, order: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        nonlocal most
        held[slot] = order.cell.need.vram
        most = max(most, sum(held[name] for name in stage.engine.slots() if name in held))
        return last(slot, order)

    stage.engine.script = script
    end = stage.run(wanted, gpus(1, memory=16, slots=4))
    assert end.progress.states == {"success": 12}
    assert 13 * GB <= most <= 16 * GB  # more than one at a time


def test_a_cell_that_needs_most_of_a_gpu_is_not_held_up_by_small_ones(stage: Stage) -> None:
    small = [sample_cell(n, model="small", gpus=1, vram=4 * GB) for n in range(40)]
    large = sample_cell(99, model="large", gpus=1, vram=14 * GB)
    stage.engine.script = comes_back(large, after=25.0)
    end = stage.run([*small, large], gpus(1, memory=16, slots=4))
    assert end.progress.states == {"success": 41}
    assert 3 < last_place(stage, "benchmark-99") < 25


def comes_back(cell: Cell, after: float) -> Script:
    """The cell fails at first, and is claimed again some seconds later."""
    failure = Failure(stage="benchmark", kind="error", message="not yet", retryable=True)
    last = lasting({})
    failed: list[str] = []

    def script(slot: SlotId, order: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if order.cell == cell and not failed:
            failed.append(slot)
            return [(after, Failed(slot=slot, attempt=order.attempt, failure=failure))]
        return last(slot, order)

    return script


def last_place(stage: Stage, name: str) -> int:
    order = ran(stage)
    return len(order) - 1 - order[::-1].index(name)


def test_a_wide_cell_whose_back_off_is_over_gets_its_gpus_before_the_narrow_ones_end(
    stage: Stage,
) -> None:
    wide = sample_cell(99, gpus=2)
    stage.engine.script = comes_back(wide, after=1.0)
    end = stage.run([*cells(40), wide], gpus(4))
    assert end.progress.states == {"success": 41}
    assert last_place(stage, "benchmark-99") < 16
    assert end.seconds < 130  # no GPU was left without a reason


def test_short_cells_fill_in_before_a_wide_one_and_do_not_hold_it_up(stage: Stage) -> None:
    times = {"benchmark-50": 50.0, "benchmark-60": 90.0, "benchmark-99": 10.0}
    short = [f"benchmark-{n}" for n in range(12)]
    times |= dict.fromkeys(short, 5.0)
    wide = sample_cell(99, gpus=2)
    order = [sample_cell(50), sample_cell(0), sample_cell(60), *cells(12)[1:], wide]
    ended_before(stage, [replace(cell, repeat=1) for cell in order], times)
    began: dict[str, float] = {}
    again = comes_back(wide, after=1.0)
    last = lasting(times)

    def script(slot: SlotId, order: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        began[order.cell.workload.name] = stage.clock() - stage.inbox.began
        return again(slot, order) if order.cell == wide else last(slot, order)

    stage.renew_every = 20.0  # cells last longer than a lease
    stage.engine.script, stage.policy = script, Fifo()
    end = stage.run(order, gpus(2))
    assert end.progress.states == {"success": len(order)}
    free = began["benchmark-50"] + 50.0  # the first moment at which the wide one can have both
    assert began["benchmark-99"] == pytest.approx(free, abs=1.0)
    assert began["benchmark-60"] > free  # it would have held the wide one up
    before = [name for name in short if began[name] < free]
    assert len(before) == 10  # one for every five seconds, all that end in time


def test_higher_priorities_get_the_gpus_of_a_wide_slot(stage: Stage) -> None:
    wide = [sample_cell(n, gpus=2) for n in range(4)]
    narrow = [sample_cell(n, priority=1) for n in range(10, 14)]
    end = stage.run([*wide, *narrow], gpus(2))
    assert end.progress.states == {"success": 8}
    assert sorted(ran(stage)[:4]) == [f"benchmark-{n}" for n in range(10, 14)]
