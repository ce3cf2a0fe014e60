"""Which slot gets which cell: models, priorities, memory and several GPUs, in virtual time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Choice, Device, Offer
from benchfleet.engines.base import Done, Failed, HostReady, Order, SlotEvent, SlotId, Started
from benchfleet.policies.by_time import LongestFirst, ShortestFirst
from benchfleet.policies.fifo import Fifo
from benchfleet.runner.progress import Notice, Progress
from benchfleet.runner.slots.place import Pool
from benchfleet.testing.samples import sample_cell
from stage import CPU, Stage, cells, sample

GB = 10**9
SCORE = {"overall": 1.0, "per_sample": [1.0, 1.0], "tasks": {}, "summary": {}}
Script = Callable[[SlotId, Order], Sequence[tuple[float, SlotEvent]]]


def gpus(count: int, *, memory: int = 24, slots: int = 0, host: str = "") -> Pool:
    devices = [Device(kind="gpu", index=n, memory=memory * GB, host=host) for n in range(count)]
    return Pool(devices=tuple(devices), slots=slots or count)


def lasting(seconds: Mapping[str, float], load: float | Mapping[str, float] = 0.0) -> Script:
    """Cells last as long as their benchmark (or else model) says; a slot loads a model once, and
    those that have a time to load of their own say when they are loaded."""
    loaded: dict[str, str] = {}

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        cell = order.cell
        own = load[cell.model.name] if isinstance(load, Mapping) else load
        loads = own if loaded.get(slot) != cell.model.name else 0.0
        loaded[slot] = cell.model.name
        takes = seconds.get(cell.workload.name, seconds.get(cell.model.name, 10.0))
        spent = {"load": loads, "benchmark": takes}
        done = Done(slot=slot, attempt=order.attempt, score=SCORE, seconds=spent)
        return [
            (
                loads if isinstance(load, Mapping) else 0,
                Started(slot=slot, attempt=order.attempt, stage="benchmark"),
            ),
            *[
                (loads + takes, sample(order, slot, n))
                for n in range(order.recorded.count(b"\n"), 2)
            ],
            (loads + takes, done),
        ]

    return script


def ended_before(
    stage: Stage, known: Sequence[Cell], seconds: Mapping[str, float], load: float = 0.0
) -> None:
    """What an earlier run leaves: as many cells that ended, of the same times."""
    stage.ledger.enroll(known)
    names = Choice(cell.fingerprint for cell in known)
    for claim in stage.ledger.claim(
        RunnerId("before"), Offer(gpus=9, vram=10**12, among=names), len(known)
    ):
        takes = seconds.get(claim.cell.workload.name, 10.0)
        stage.ledger.finish(
            claim.lease,
            Outcome(state="success", digest="d", seconds={"load": load, "benchmark": takes}),
        )


def ran(stage: Stage) -> list[str]:
    """The cells in the order in which they began: benchmark, or model and benchmark."""
    return [cell.rpartition("/")[2] for _, cell in stage.engine.orders]


def models_by_slot(stage: Stage) -> dict[str, list[str]]:
    """The models that each slot loaded, in their order."""
    found: dict[str, list[str]] = {}
    for slot, cell in stage.engine.orders:
        models, model = found.setdefault(slot, []), cell.split("/")[0]
        if not models or models[-1] != model:
            models.append(model)
    return found


def test_cold_slots_take_a_model_each_before_two_load_the_same(stage: Stage) -> None:
    wanted = [sample_cell(n, model=m) for m in "abc" for n in range(4)]
    stage.engine.script = lasting({}, load=30.0)
    stage.run(wanted, gpus(3))
    assert sorted(models_by_slot(stage).values()) == [["a"], ["b"], ["c"]]


def test_each_model_is_loaded_at_most_once_in_a_slot(stage: Stage) -> None:
    sizes = {"a": 23, "b": 11, "c": 7, "d": 3, "e": 1}
    wanted = [sample_cell(n, model=m) for m, count in sizes.items() for n in range(count)]
    stage.engine.script = lasting({"a": 20.0, "c": 35.0}, load=40.0)
    end = stage.run(wanted, gpus(3))
    assert end.progress.states == {"success": len(wanted)}
    for models in models_by_slot(stage).values():
        assert len(models) == len(set(models))


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


def test_nothing_is_loaded_for_a_tail_that_the_slot_that_has_it_ends_sooner(stage: Stage) -> None:
    wanted = [sample_cell(n, model="a") for n in range(2)]
    wanted += [sample_cell(n, model="b") for n in range(5)]
    stage.engine.script = lasting({}, load=100.0)
    end = stage.run(wanted, gpus(2))
    assert sorted(models_by_slot(stage).values()) == [["a"], ["b"]]
    assert end.seconds == pytest.approx(150, abs=2)


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


def test_a_larger_priority_goes_before_the_model_in_memory(stage: Stage) -> None:
    wanted = [sample_cell(n, model="a") for n in range(3)]
    wanted += [sample_cell(n, model="b", priority=1) for n in range(3)]
    stage.run(wanted, gpus(1))
    assert [cell.split("/")[0] for _, cell in stage.engine.orders] == [*"bbbaaa"]


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
    names = [cell.split("/", 2)[2] for _, cell in stage.engine.orders]
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

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
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

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
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

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
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


def test_the_time_left_is_told_with_its_spread_and_counts_what_was_reused_as_done(
    stage: Stage,
) -> None:
    repeats = [sample_cell(repeat=number, repeats=True) for number in range(12)]
    ended_before(stage, repeats[:4], {})
    told: list[tuple[float, float]] = []

    def look(notice: Notice, progress: Progress) -> None:
        left = progress.seconds_left(stage.clock())
        if left is not None:
            told.append((stage.clock() - began, left))

    stage.watch = look  # type: ignore[method-assign]
    began = stage.clock()
    stage.engine.script = lasting({})
    end = stage.run(repeats, CPU)
    assert end.progress.reused == 4
    for at, left in told:
        assert left == pytest.approx(end.seconds - at, abs=3)
    assert len(told) > 8


def test_the_time_left_knows_that_other_runners_share_the_work(stage: Stage) -> None:
    repeats = [sample_cell(repeat=number, repeats=True) for number in range(12)]
    ended_before(stage, repeats[:4], {})
    stage.ledger.enroll(repeats)
    stage.ledger.claim(RunnerId("other"), Offer(), 2)
    told: list[float] = []

    def look(notice: Notice, progress: Progress) -> None:
        if (left := progress.seconds_left(stage.clock())) is not None:
            told.append(left)

    stage.watch = look  # type: ignore[method-assign]
    stage.engine.script = lasting({})
    stage.run(repeats, CPU)
    assert told[0] == pytest.approx((8 * 10 - 2 * 4) / 4, abs=3)  # four slots for eight cells


def on_two_types(stage: Stage, seconds: Mapping[str, float], cells: Sequence[Cell]) -> None:
    """Cells of one kind, for one slot here and three of another type in a lab: each takes as long
    as its device's type says, as two did before."""
    stage.keeps, stage.renew_every, stage.engine.far = False, 20.0, ("lab",)

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        device = stage.engine.specs[slot].devices[0]
        return lasting({order.cell.workload.name: seconds[device.type]})(slot, order)

    stage.engine.script = script
    lab = tuple(Device(kind="gpu", index=n, name="slow", memory=GB, host="lab") for n in range(3))
    stage.inbox.post(HostReady(host="lab", devices=lab, slots=3, threads=1, provenance={}))
    known = [replace(cells[0], repeat=100 + n) for n in range(4)]
    stage.ledger.enroll(known)
    claims = stage.ledger.claim(RunnerId("before"), Offer(gpus=9, vram=10**12), 4)
    for claim, (name, takes) in zip(claims, [*seconds.items()] * 2, strict=True):
        spent = {"benchmark": takes}
        outcome = Outcome(state="success", digest="d", seconds=spent, device_type=name)
        stage.ledger.finish(claim.lease, outcome)


@pytest.mark.parametrize("gpus", [0, 1])
def test_the_time_left_knows_how_fast_each_type_of_device_is(stage: Stage, gpus: int) -> None:
    wanted = [sample_cell(repeat=n, repeats=True, gpus=gpus) for n in range(60)]
    here = "cpu" if gpus else "fast"  # what needs a GPU is done by the others alone
    on_two_types(stage, {here: 10.0, "slow": 60.0}, wanted)
    told: list[tuple[float, float, float]] = []

    def look(notice: Notice, progress: Progress) -> None:
        if progress.outlook is not None and len(progress.slots) == 4 - gpus:
            now = stage.clock()
            left = progress.seconds_left(now) or 0.0
            told.append((now - began, left, progress.outlook.spread))

    stage.watch, began = look, stage.clock()  # type: ignore[method-assign]
    pool = Device(kind="gpu", index=0, name="fast", memory=GB)
    end = stage.run(wanted, Pool(devices=(CPU.devices[0] if gpus else pool,), slots=1))
    assert end.progress.states == {"success": 60}
    for at, left, spread in told:
        assert left == pytest.approx(end.seconds - at, abs=45)
        assert spread < 60
    assert len(told) > 50


def test_a_result_keeps_the_type_of_its_device(stage: Stage, tmp_path: Path) -> None:
    device = Device(kind="gpu", index=0, name="NVIDIA H100", memory=80 * GB)
    stage.run(cells(1, gpus=1), Pool(devices=(device,), slots=1))
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.device_type == "NVIDIA H100"
    again = replace(record.outcome, device_type="")
    assert "device_type" not in again.to_dict()
    assert Outcome.from_dict(record.outcome.to_dict()) == record.outcome


def test_an_idle_slot_gives_way_to_cells_whose_model_only_slots_without_a_gpu_have(
    stage: Stage,
) -> None:
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
