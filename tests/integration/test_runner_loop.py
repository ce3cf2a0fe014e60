"""The runner's loop on a real results tree, with scripted slots in virtual time."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.domain.attempt import Lease, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Device, Offer
from benchfleet.engines.base import (
    Done,
    Failed,
    FileSent,
    Order,
    Recorded,
    SlotEvent,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
    Started,
    Stopped,
)
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.layout import Layout
from benchfleet.runner.inbox import Arrival, Interrupted, LeaseLost
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.loop import RunEnd, Runner
from benchfleet.runner.place import Pool
from benchfleet.runner.progress import Notice, Progress
from benchfleet.testing.clock import FakeClock
from benchfleet.testing.samples import sample_cell

CPU = Pool(devices=tuple(Device(kind="cpu", index=i) for i in range(2)), slots=2)
GPUS = Pool(devices=tuple(Device(kind="gpu", index=i, memory=8 * 10**9) for i in range(2)), slots=2)


HORIZON = 10_000.0  # virtual seconds after which a run that goes on has hung


class VirtualInbox:
    """Arrivals at times of their own; taking one moves the clock to it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.began = clock()
        self._due: list[tuple[float, int, Arrival]] = []
        self._count = 0

    def post(self, arrival: Arrival, *, after: float = 0.0) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.clock() + after, self._count, arrival))

    def take(self, wait: float) -> Arrival | None:
        assert self.clock() < self.began + HORIZON, "the run does not end"
        until = self.clock() + max(0.0, wait)
        if self._due and self._due[0][0] <= until:
            at, _, arrival = heapq.heappop(self._due)
            self.clock.now = max(self.clock.now, at)
            return arrival
        self.clock.now = until
        return None

    def now(self) -> float:
        return self.clock()


@dataclass
class ScriptedEngine:
    """Slots that start at once and do what `script` says of each order."""

    inbox: VirtualInbox
    script: Callable[[SlotId, Order], Sequence[tuple[float, SlotEvent]]]
    specs: dict[str, SlotSpec] = field(default_factory=dict)
    opened: list[SlotSpec] = field(default_factory=list)
    orders: list[tuple[str, str]] = field(default_factory=list)
    dead_on_arrival: str = ""  # interpreter whose slots never start
    dead_devices: set[int] = field(default_factory=set)  # devices on which none starts
    start_takes: float = 0.0  # seconds

    far: tuple[str, ...] = ()  # hosts that it reaches

    def slots(self) -> Sequence[SlotId]:
        return [SlotId(name) for name in self.specs]

    def hosts(self) -> Sequence[str]:
        return self.far

    def open(self, spec: SlotSpec) -> None:
        self.specs[spec.slot] = spec
        self.opened.append(spec)
        dead = self.dead_on_arrival == spec.python != "" or self.dead_on_arrival == "all"
        if dead or self.dead_devices & {device.index for device in spec.devices}:
            self.inbox.post(SlotLost(slot=spec.slot, reason="exit code 1", exit_code=1))
        else:
            hello = {"slot": spec.slot, "cell": "", "pid": 1}
            self.inbox.post(SlotReady(slot=spec.slot, hello=hello), after=self.start_takes)

    def run(self, slot: SlotId, order: Order) -> None:
        self.orders.append((slot, order.cell.id))
        for after, event in self.script(slot, order):
            self.inbox.post(event, after=after)

    def stop(self, slot: SlotId, attempt: str) -> None:
        self.inbox.post(Stopped(slot=slot, attempt=attempt, reason="asked to"), after=0.5)

    def close(self, slot: SlotId) -> None:
        self.inbox.post(SlotLost(slot=slot, reason="exit code 0", expected=True, exit_code=0))

    kill = close

    def shutdown(self) -> None:
        self.specs.clear()


def sample(order: Order, slot: SlotId, index: int) -> Recorded:
    line = {"index": index, "id": f"s{index}", "columns": {}, "predicted_answer": "x"}
    return Recorded(
        slot=slot, attempt=order.attempt, lines=json.dumps(line).encode() + b"\n", done=index + 1,
        total=2,
    )  # fmt: skip


def good(slot: SlotId, order: Order) -> list[tuple[float, SlotEvent]]:
    """Two samples and an end, over ten seconds."""
    score = {"overall": 1.0, "per_sample": [1.0, 1.0], "tasks": {}, "summary": {}}
    known = order.recorded.count(b"\n")
    score["summary"] = {"cell": "a name that the loop uses too"}
    return [
        (0, Started(slot=slot, attempt=order.attempt, stage="benchmark")),
        *[(4.0 * (i + 1), sample(order, slot, i)) for i in range(known, 2)],
        (10, Done(slot=slot, attempt=order.attempt, score=score, seconds={"benchmark": 10})),
    ]


@dataclass
class Stage:
    """A runner with everything around it."""

    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inbox = VirtualInbox(self.clock)
        self.ledger = MemoryLedger(clock=self.clock, lease=60)
        self.engine = ScriptedEngine(self.inbox, good)
        self.layout = Layout(self.folder)
        self.thief: object = None

    def watch(self, notice: Notice, progress: Progress) -> None:
        self.notices.append(notice)
        if notice.kind != "run_started":
            assert sum(progress.states.values()) == progress.total
            assert min(progress.states.values()) >= 0

    def runner(self, cells: Sequence[Cell], pool: Pool = CPU) -> Runner:
        self.keeper = LeaseKeeper(
            self.ledger,
            lambda lease: self.inbox.post(LeaseLost(lease=lease)),
            lambda error: None,
            every=1e9,
        )
        return Runner(
            runner=RunnerId("us" * 16),
            ledger=self.ledger,
            engine=self.engine,
            inbox=self.inbox,
            layout=self.layout,
            pools=[pool],
            cells=cells,
            observer=self.watch,
            keeper=self.keeper,
            provenance=dict,
            random=lambda: 1.0,
            background=lambda work: work(),
        )

    def run(self, cells: Sequence[Cell], pool: Pool = CPU) -> RunEnd:
        return self.runner(cells, pool).run()

    def states(self) -> dict[str, str]:
        return {record.path: record.state for record in self.ledger.cells()}

    def said(self, kind: str) -> list[Notice]:
        return [notice for notice in self.notices if notice.kind == kind]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def cells(count: int, **named: Any) -> list[Cell]:
    return [sample_cell(number, **named) for number in range(count)]


def test_every_cell_is_run_once_and_published(stage: Stage) -> None:
    end = stage.run(cells(5))
    assert end.progress.states == {"success": 5}
    assert len(stage.engine.orders) == 5
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
    models = [cell.split("/")[0] for _, cell in stage.engine.orders]
    assert models == ["a", "a", "a", "b", "b", "b"]


def test_a_transient_failure_is_tried_again_after_its_delay(stage: Stage) -> None:
    failure = Failure(stage="benchmark", kind="oom", message="no room", retryable=True)

    def once(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.orders) == 1:
            return [(1, Failed(slot=slot, attempt=order.attempt, failure=failure))]
        return good(slot, order)

    stage.engine.script = once
    end = stage.run(cells(1))
    assert end.progress.states.get("success") == 1
    assert stage.said("cell_failed")[0].data["retry_in"] == 2.0
    assert end.seconds >= 13


def test_a_cell_that_always_fails_ends_failed_and_stops_no_other(stage: Stage) -> None:
    failure = Failure(stage="benchmark", kind="slot_lost", message="gone", retryable=True)

    def first_fails(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if "benchmark-0" in order.cell.id:
            return [(1, Failed(slot=slot, attempt=order.attempt, failure=failure))]
        return good(slot, order)

    stage.engine.script = first_fails
    end = stage.run(cells(3))
    assert (end.progress.states["failed"], end.progress.states["success"]) == (1, 2)
    assert sum("benchmark-0" in cell for _, cell in stage.engine.orders) == 3
    (record,) = stage.ledger.cells(states=["failed"])
    assert record.outcome is not None
    assert record.outcome.failure is not None
    assert record.outcome.failure.message == "gone"
    kept = stage.layout.attempts_of(record.fingerprint)
    assert len(list(kept.glob("*/failure.json"))) == 3


def test_samples_kept_make_a_failed_cell_partial_and_serve_the_next_try(stage: Stage) -> None:
    failure = Failure(stage="benchmark", kind="error", message="no")
    handed: list[bytes] = []

    def fails_after_one(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        handed.append(order.recorded)
        return [
            (1, sample(order, slot, 0)),
            (2, Failed(slot=slot, attempt=order.attempt, failure=failure)),
        ]

    stage.engine.script = fails_after_one
    stage.run(cells(1))
    assert list(stage.states().values()) == ["partial"]
    from benchfleet.domain.event import Event

    (record,) = stage.ledger.cells()
    stage.ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))
    stage.engine.script = lambda slot, order: (handed.append(order.recorded), good(slot, order))[1]
    stage.run(cells(1))
    assert handed[0] == b""
    assert json.loads(handed[1])["index"] == 0
    published = stage.layout.published(record.path)
    lines = (published / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in lines] == [0, 1]
    sealed = json.loads((published / "cell.json").read_text())
    assert sealed["provenance"]["resumed_samples"] == 1


def test_a_slot_that_dies_is_replaced_and_its_cell_tried_again(stage: Stage) -> None:
    def dies_once(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.orders) == 1:
            return [(1, SlotLost(slot=slot, reason="killed by signal 9 (SIGKILL)", exit_code=-9))]
        return good(slot, order)

    stage.engine.script = dies_once
    end = stage.run(cells(1))
    assert end.progress.states.get("success") == 1
    assert len(stage.engine.opened) == 2
    assert "SIGKILL" in stage.said("cell_failed")[0].message


def test_a_slot_unfit_for_more_is_replaced_and_no_try_is_used_up(stage: Stage) -> None:
    def unfit_once(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.orders) == 1:
            return [
                (1, Stopped(slot=slot, attempt=order.attempt, reason="memory", fit=False)),
                (1, SlotLost(slot=slot, reason="exit code 0", exit_code=0)),
            ]
        return good(slot, order)

    stage.engine.script = unfit_once
    stage.run(cells(1))
    (record,) = stage.ledger.cells()
    assert (record.state, record.attempt, record.tries) == ("success", 2, 1)


def test_a_cell_over_its_time_limit_is_ended_by_name(stage: Stage) -> None:
    from dataclasses import replace

    from benchfleet.domain.cell import Limits

    stage.engine.script = lambda slot, order: []
    slow = replace(sample_cell(), limits=Limits(cell=30, tries=1))
    end = stage.run([slow])
    assert end.progress.states.get("failed") == 1
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == "timeout"


def test_one_interrupt_keeps_samples_gives_cells_back_and_ends(stage: Stage) -> None:
    stage.inbox.post(Interrupted(signal="SIGINT"), after=6)
    end = stage.run(cells(4))
    assert end.interrupted
    assert end.progress.states.get("pending") == 4
    assert len(stage.engine.orders) == 2
    assert {notice.data["samples"] for notice in stage.said("cell_released")} == {1}
    assert stage.ledger.claim(RunnerId("other"), Offer(), 9)


def test_two_interrupts_end_at_once(stage: Stage) -> None:
    stage.engine.stop = lambda slot, attempt: None  # type: ignore[method-assign]
    stage.inbox.post(Interrupted(signal="SIGINT"), after=1)
    stage.inbox.post(Interrupted(signal="SIGINT"), after=2)
    end = stage.run(cells(2))
    assert end.interrupted
    assert end.seconds < 4
    assert end.progress.states.get("pending") == 2


def test_a_lost_lease_publishes_nothing(stage: Stage) -> None:
    def robbed(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.orders) == 1:
            fingerprint, _, _ = order.attempt.partition("/")
            held = next(stage.ledger.cells(among={fingerprint}))
            stage.clock.advance(61)
            stage.ledger.reap()
            stage.ledger.claim(RunnerId("thief"), Offer(), 1)
            assert held.state == "running"
        return good(slot, order)

    stage.engine.script = robbed
    stage.run(cells(1))
    assert stage.said("claim_lost")
    (published,) = stage.folder.glob("tiny/*/*/cell.json")
    attempt = json.loads(published.read_text())["provenance"]["attempt"]
    assert attempt == 3  # ours after the thief's lease ran out, not the one that was robbed


def test_a_score_that_is_no_number_is_a_bad_result(stage: Stage) -> None:
    score = {"overall": float("nan"), "per_sample": [], "tasks": {}, "summary": {}}
    stage.engine.script = lambda slot, order: [
        (1, Done(slot=slot, attempt=order.attempt, score=score))
    ]
    stage.run(cells(1))
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.failure is not None
    assert (record.outcome.failure.stage, record.outcome.failure.kind) == ("collect", "bad_result")


@pytest.mark.parametrize("name", ["../escaped", "cell.json", "samples.jsonl", "", "a/../b"])
def test_a_slot_cannot_write_where_it_should_not(stage: Stage, name: str) -> None:
    stage.engine.script = lambda slot, order: [
        (1, FileSent(slot=slot, attempt=order.attempt, name=name, data=b"evil")),
        *good(slot, order),
    ]
    stage.run(cells(1))
    assert list(stage.states().values()) == ["failed"]
    assert not (stage.folder.parent / "escaped").exists()


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


def mixed_gpus(slots: int = 2) -> Pool:
    """A small GPU and a large one."""
    sizes = (24, 80)
    devices = [Device(kind="gpu", index=n, memory=gb * 10**9) for n, gb in enumerate(sizes)]
    return Pool(devices=tuple(devices), slots=slots)


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_large_cell_finds_the_large_gpu(stage: Stage, slots: int) -> None:
    end = stage.run([sample_cell(1, vram=40 * 10**9)], mixed_gpus(slots))
    assert end.progress.states == {"success": 1}


def test_small_and_large_cells_all_end_on_mixed_gpus(stage: Stage) -> None:
    wanted = [sample_cell(n, vram=gb * 10**9) for n, gb in enumerate((10, 40, 40, 10))]
    end = stage.run(wanted, mixed_gpus())
    assert end.progress.states["success"] == 4


def test_a_wide_cell_that_comes_back_gets_its_devices_again(stage: Stage) -> None:
    failure = Failure(stage="benchmark", kind="oom", message="no room", retryable=True)

    def wide_fails_once(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        first = sum("benchmark-9" in cell for _, cell in stage.engine.orders) == 1
        if "benchmark-9" in order.cell.id and first:
            return [(1, Failed(slot=slot, attempt=order.attempt, failure=failure))]
        return good(slot, order)

    stage.engine.script = wide_fails_once
    end = stage.run([sample_cell(9, gpus=2), *cells(2)], GPUS)
    assert end.progress.states["success"] == 3


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

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        tries[order.cell.id] = tries.get(order.cell.id, 0) + 1
        if tries[order.cell.id] <= failing:
            return [(1, Failed(slot=slot, attempt=order.attempt, failure=failure))]
        return good(slot, order)

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
    assert "gpu:1 is left out" in stage.said("warning")[0].message
    assert end.broken == ""


def test_an_interrupt_while_a_slot_starts_for_a_cell_begins_nothing(stage: Stage) -> None:
    stage.inbox.post(Interrupted(signal="SIGINT"), after=0.5)
    stage.engine.start_takes = 5.0
    end = stage.run([sample_cell(2, model="kv", python="envs/kv/bin/python")])
    assert end.interrupted
    assert stage.engine.orders == []
    assert stage.ledger.claim(RunnerId("other"), Offer(), 1)


def test_a_lease_lost_in_the_middle_ends_its_slot_and_publishes_nothing(stage: Stage) -> None:
    stage.ledger.enroll(cells(1))
    runner = stage.runner(cells(1))
    held: list[Lease] = []

    def robbed(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if not held:
            (lease,) = stage.keeper.held()
            held.append(lease)
            stage.ledger.release([lease], "taken away behind our back")
            (claim,) = stage.ledger.claim(RunnerId("thief"), Offer(), 1)
            stage.inbox.post(LeaseLost(lease=lease), after=3)
            stage.thief = claim
        return good(slot, order)

    stage.engine.script = robbed
    runner.run()
    assert stage.said("claim_lost")
    (record,) = stage.ledger.cells()
    assert (record.state, record.attempt) == ("success", 3)


def test_slots_that_never_start_end_the_run_with_the_reason(stage: Stage) -> None:
    stage.engine.dead_on_arrival = "all"
    end = stage.run(cells(2))
    assert "slots do not start" in end.broken
    assert end.progress.states == {"pending": 2}


def test_a_result_committed_but_not_renamed_is_published_by_the_next_run(stage: Stage) -> None:
    stage.run(cells(1))
    (record,) = stage.ledger.cells()
    public = stage.layout.published(record.path)
    back = stage.layout.attempts_of(record.fingerprint) / "1-1"
    back.parent.mkdir(parents=True)
    public.rename(back)
    stage.run(cells(1))
    assert (public / "cell.json").exists()
    assert stage.said("published_late")[0].cell == record.path


def test_what_lies_at_a_public_path_is_never_overwritten(stage: Stage) -> None:
    plain = stage.folder / "tiny" / "dense" / "benchmark-0"
    plain.mkdir(parents=True)
    (plain / "mine.txt").write_text("precious")
    stage.run(cells(1))
    assert (plain / "mine.txt").read_text() == "precious"
    assert "cannot be published" in stage.said("warning")[0].message
    (plain / "mine.txt").unlink()
    plain.rmdir()
    stage.run(cells(1))
    assert (plain / "cell.json").exists()


def test_cells_held_by_another_runner_are_waited_for_and_taken_when_it_dies(stage: Stage) -> None:
    stage.ledger.enroll(cells(1))
    stage.ledger.claim(RunnerId("other"), Offer(), 1)
    end = stage.run(cells(1))
    assert end.progress.states == {"success": 1}
    assert stage.said("waiting")
    assert end.seconds >= 60
