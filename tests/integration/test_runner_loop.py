"""The runner's loop on a real results tree, with scripted slots in virtual time."""

from __future__ import annotations

import heapq
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.domain.attempt import Advice, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Device, Offer
from benchfleet.engines.base import (
    Calling,
    Done,
    Failed,
    FileSent,
    HostLost,
    HostReady,
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
from benchfleet.errors import LedgerFull
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.layout import Layout
from benchfleet.runner.inbox import Arrival, Interrupted, LeaseLost, NoRoom
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.loop import RunEnd, Runner
from benchfleet.runner.place import Pool, in_one_memory
from benchfleet.runner.progress import Notice, Progress
from benchfleet.runner.space import PLENTY, Room
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
        self.specs.pop(slot, None)
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
    room: Callable[[], Room] = lambda: PLENTY

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
        self.ending = threading.Event()
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
            room=self.room,
            ending=self.ending,
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


def limited(**limits: float) -> Cell:
    from dataclasses import replace

    from benchfleet.domain.cell import Limits

    return replace(sample_cell(), limits=Limits(tries=2, **limits))


def only_failure(stage: Stage) -> Failure:
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.failure is not None
    assert (record.state, record.tries) == ("partial", 2)
    return record.outcome.failure


def test_a_call_of_the_model_over_its_limit_is_ended_and_tried_again(stage: Stage) -> None:
    def hangs(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        call = Calling(slot=slot, attempt=order.attempt, count=4, sample=1)
        return [*good(slot, order)[:-1], (9, call)]

    stage.engine.script = hangs
    end = stage.run([limited(generation=30)])
    failure = only_failure(stage)
    assert (failure.stage, failure.kind, failure.retryable) == ("benchmark", "timeout", True)
    assert "with 4 prompts, the first that of sample 1, takes longer than its limit of 30 s" in (
        failure.message
    )
    assert 2 * 39 < end.seconds < 2 * 39 + 10


def test_a_cell_of_which_nothing_comes_is_stuck_and_tried_again(stage: Stage) -> None:
    stage.engine.script = lambda slot, order: good(slot, order)[:-1]
    end = stage.run([limited(stuck=30)])
    failure = only_failure(stage)
    assert (failure.stage, failure.kind, failure.retryable) == ("benchmark", "stuck", True)
    assert failure.message.startswith("nothing came of it for 31 s")
    assert len({slot for slot, _ in stage.engine.orders}) == 2
    assert end.seconds < 90


def test_what_came_while_the_runner_itself_was_suspended_counts(stage: Stage) -> None:
    """It is taken in only after the look that is due at once."""

    def suspended(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        first, second, third, done = good(slot, order)
        take = stage.inbox.take

        def sleeps(wait: float) -> Arrival | None:
            stage.inbox.take = take  # type: ignore[method-assign]
            stage.clock.now += 500
            return None

        stage.inbox.take = sleeps  # type: ignore[method-assign]
        return [first, (400, second[1]), (401, third[1]), (402, done[1])]

    stage.engine.script = suspended
    end = stage.run([limited(stuck=60)])
    assert end.progress.states == {"success": 1}
    assert len(stage.engine.orders) == 1


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


NOWHERE = Pool(devices=(), slots=0)


def host_ready(name: str, slots: int = 1, *, gpu: bool = False) -> HostReady:
    kind, memory = ("gpu", 8 * 10**9) if gpu else ("cpu", 0)
    devices = [Device(kind=kind, index=i, memory=memory, host=name) for i in range(slots)]
    return HostReady(host=name, devices=tuple(devices), slots=slots, threads=1)


def host_of(stage: Stage, slot: str) -> str:
    return next(spec.host for spec in stage.engine.opened if spec.slot == slot)


def lost_with(slot: SlotId, *, reason: str = "its connection broke") -> SlotLost:
    return SlotLost(slot=slot, reason=reason, host_lost=True)


def test_hosts_take_their_part_from_when_they_are_reached(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", 2), after=5)
    stage.inbox.post(host_ready("lab2", 2), after=12)
    end = stage.run(cells(6), NOWHERE)
    assert end.progress.states == {"success": 6}
    assert end.seconds == pytest.approx(25)
    ran = [host_of(stage, slot) for slot, _ in stage.engine.orders]
    assert ran == ["lab1", "lab1", "lab2", "lab2", "lab1", "lab1"]
    assert {record.outcome.host for record in stage.ledger.cells() if record.outcome} == {
        "lab1",
        "lab2",
    }


def test_cells_of_a_lost_host_go_elsewhere_at_once_after_their_last_sample(stage: Stage) -> None:
    def loses_the_first(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if host_of(stage, slot) == "lab1":
            stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=5.5)
            return [(4, sample(order, slot, 0)), (5, lost_with(slot))]
        return good(slot, order)

    stage.engine.far, stage.engine.script = ("lab1", "lab2"), loses_the_first
    stage.inbox.post(host_ready("lab1"))
    stage.inbox.post(host_ready("lab2"), after=2)
    end = stage.run(cells(1, tries=1), NOWHERE)
    assert end.progress.states == {"success": 1}
    assert [host_of(stage, slot) for slot, _ in stage.engine.orders] == ["lab1", "lab2"]
    (failed,) = stage.said("cell_failed")
    assert failed.data["retry_in"] == 0
    assert "host_lost" in failed.message
    assert end.seconds == pytest.approx(15)
    (record,) = stage.ledger.cells()
    sealed = json.loads((stage.layout.published(record.path) / "cell.json").read_text())
    assert sealed["provenance"]["resumed_samples"] == 1
    assert sealed["provenance"]["attempt"] == 2


def test_nothing_is_opened_on_a_host_whose_connection_broke_until_it_is_heard_of(
    stage: Stage,
) -> None:
    def breaks_once(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.orders) == 1:
            stage.inbox.post(host_ready("lab1"), after=8)  # the connection alone was broken
            return [(3, lost_with(slot))]
        return good(slot, order)

    stage.engine.far, stage.engine.script = ("lab1",), breaks_once
    stage.inbox.post(host_ready("lab1"))
    end = stage.run(cells(1), NOWHERE)
    assert end.progress.states == {"success": 1}
    assert end.seconds == pytest.approx(18)
    assert len(stage.engine.opened) == 2
    assert len(stage.said("host_ready")) == 1
    assert stage.said("host_lost") == []


def test_a_host_that_is_ready_twice_has_no_more_devices_than_once(stage: Stage) -> None:
    stage.engine.far = ("lab1",)
    stage.inbox.post(host_ready("lab1"))
    stage.inbox.post(host_ready("lab1"), after=1)
    end = stage.run(cells(2), NOWHERE)
    assert end.seconds == pytest.approx(20)
    assert len(stage.said("host_ready")) == 1


def test_devices_left_out_stay_so_while_their_host_is_only_doubted(stage: Stage) -> None:
    def breaks_once(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.orders) == 1:
            stage.inbox.post(host_ready("lab1", 2), after=8)
            return [(3, lost_with(slot))]
        return good(slot, order)

    stage.engine.far, stage.engine.script = ("lab1",), breaks_once
    stage.engine.dead_devices = {1}
    stage.inbox.post(host_ready("lab1", 2))
    end = stage.run(cells(4), NOWHERE)
    assert end.progress.states == {"success": 4}
    starts = [spec.devices[0].index for spec in stage.engine.opened]
    assert starts.count(1) <= 4  # three, and one when the host was heard of again


def test_a_host_that_is_lost_and_comes_back_is_used_again(stage: Stage) -> None:
    def loses_it(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.orders) == 1:
            stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=3.5)
            stage.inbox.post(host_ready("lab1"), after=100)
            return [(3, lost_with(slot))]
        return good(slot, order)

    stage.engine.far, stage.engine.script = ("lab1",), loses_it
    stage.inbox.post(host_ready("lab1"))
    end = stage.run(cells(2), NOWHERE)
    assert end.progress.states == {"success": 2}
    kinds = [n.kind for n in stage.notices if n.kind in {"host_ready", "host_lost", "slot_lost"}]
    assert kinds == ["host_ready", "slot_lost", "host_lost", "host_ready"]


def test_a_run_whose_hosts_are_all_hopeless_ends_at_once_and_claims_nothing(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(HostLost(host="lab1", reason="no key", hopeless=True))
    stage.inbox.post(HostLost(host="lab2", reason="no Python", hopeless=True), after=3)
    end = stage.run(cells(2), NOWHERE)
    assert end.broken == "no machine can be used (lab1: no key; lab2: no Python)"
    assert end.seconds == pytest.approx(3)
    assert end.progress.states == {"pending": 2}
    assert stage.said("cell_started") == []


def test_a_run_waits_for_a_host_that_may_come_but_not_for_ever(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(HostLost(host="lab1", reason="it is off"))
    end = stage.run(cells(1), NOWHERE)
    assert end.broken == ("no machine came within 600 s (lab1: it is off; lab2: not reached yet)")
    assert 600 <= end.seconds < 605
    assert end.progress.states == {"pending": 1}


def test_hosts_that_stay_away_end_no_run_that_can_go_on_here(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(HostLost(host="lab1", reason="it is off"))
    end = stage.run(cells(4))
    assert end.progress.states == {"success": 4}
    assert end.seconds == pytest.approx(20)


def test_what_cannot_run_here_waits_for_a_host_that_may_have_the_device(stage: Stage) -> None:
    stage.engine.far = ("lab1",)
    stage.inbox.post(host_ready("lab1", gpu=True), after=40)
    end = stage.run([sample_cell(0), sample_cell(1, gpus=1)])
    assert end.progress.states == {"success": 2}
    assert end.impossible == ()
    assert end.seconds == pytest.approx(50)


def test_what_no_host_can_run_is_named_once_all_have_been_reached(stage: Stage) -> None:
    stage.engine.far = ("lab1",)
    stage.inbox.post(host_ready("lab1"), after=2)
    end = stage.run([sample_cell(0), sample_cell(1, gpus=1)])
    assert end.progress.states == {"success": 1, "pending": 1}
    ((_, why),) = end.impossible
    assert "needs 1 GPUs" in why


def test_what_waits_for_a_busy_gpu_keeps_no_other_machine_from_work(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", gpu=True))
    stage.inbox.post(host_ready("lab2"), after=1)
    wanting = [sample_cell(number, gpus=1) for number in range(3)]
    end = stage.run([*wanting, sample_cell(3)], NOWHERE)
    assert end.progress.states == {"success": 4}
    assert end.seconds == pytest.approx(30)
    hosts = {cell: host_of(stage, slot) for slot, cell in stage.engine.orders}
    assert [hosts[cell] for cell in sorted(hosts)] == ["lab1", "lab1", "lab1", "lab2"]


@pytest.mark.parametrize("ends_well", [True, False])
def test_a_claim_kept_for_a_slot_of_another_interpreter_is_let_go_when_its_host_is_lost(
    stage: Stage, ends_well: bool
) -> None:
    """Whether the slot that makes room for it had ended before its host was lost, or not."""

    def close(slot: SlotId) -> None:
        stage.engine.close = stage.engine.kill = was  # type: ignore[method-assign]
        (other,) = [spec.slot for spec in stage.engine.opened if spec.slot != slot]
        stage.inbox.post(lost_with(other))
        stage.inbox.post(
            SlotLost(slot=slot, reason="exit code 0", expected=True, exit_code=0)
            if ends_well
            else lost_with(slot)
        )
        stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=0.5)

    was = stage.engine.close
    stage.engine.close = stage.engine.kill = close  # type: ignore[method-assign]
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", 2))
    stage.inbox.post(host_ready("lab2"), after=30)
    end = stage.run([sample_cell(0), sample_cell(1, python="/other/python")], NOWHERE)
    assert end.progress.states == {"success": 2}
    assert {record.runner for record in stage.ledger.cells()} == {""}
    assert len(stage.said("host_lost")) == 1


def no_memory(slot: SlotId, order: Order, *, stage: Any = "benchmark") -> Failed:
    failure = Failure(stage=stage, kind="oom", message="no room", retryable=True)
    return Failed(slot=slot, attempt=order.attempt, failure=failure)


def batched(cell: Cell, size: int) -> Cell:
    return replace(cell, workload=replace(cell.workload, batch_size=size))


def crowd(stage: Stage, slot: SlotId) -> int:
    """The open slots on the devices of this one, itself among them."""
    spec = stage.engine.specs[slot]
    others = [stage.engine.specs[name] for name in stage.engine.slots()]
    return sum(in_one_memory(spec.devices, other.devices) for other in others)


def memory_on(stage: Stage, slot: SlotId) -> int:
    return min(device.memory for device in stage.engine.specs[slot].devices)


def test_a_cell_that_runs_out_of_memory_gets_half_the_batch_at_once_and_loses_no_try(
    stage: Stage,
) -> None:
    sizes: list[int] = []

    def fits_in_two(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        sizes.append(order.batch_size)
        return [(1, no_memory(slot, order))] if order.batch_size > 2 else good(slot, order)

    stage.engine.script = fits_in_two
    end = stage.run([batched(sample_cell(tries=1), 9)])
    assert end.progress.states.get("success") == 1
    assert sizes == [9, 4, 2]
    assert end.seconds == pytest.approx(12)
    told = [(n.data["retry_in"], n.data["differently"]) for n in stage.said("cell_failed")]
    assert told == [(0, "with batch size 4"), (0, "with batch size 2")]
    (record,) = stage.ledger.cells()
    assert (record.attempt, record.tries) == (3, 1)
    sealed = json.loads((stage.layout.published(record.path) / "cell.json").read_text())
    assert sealed["provenance"]["effective_batch_size"] == 2
    assert sealed["cell"]["workload"]["batch_size"] == 9


def test_a_model_that_does_not_fit_is_not_tried_with_smaller_batches(stage: Stage) -> None:
    sizes: list[int] = []

    def never_loads(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        sizes.append(order.batch_size)
        return [(1, no_memory(slot, order, stage="load"))]

    stage.engine.script = never_loads
    stage.run([batched(sample_cell(tries=2), 8)])
    assert sizes == [8, 8]


@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_a_cell_that_does_not_fit_beside_another_gets_a_slot_alone(
    stage: Stage, device: Any
) -> None:
    gpu = Device(kind="gpu", index=0, memory=8 * 10**9)
    pool = Pool(devices=(gpu,), slots=2) if device == "gpu" else CPU
    alone: list[str] = []

    def fits_alone(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if "benchmark-0" not in order.cell.id:
            return good(slot, order)
        if crowd(stage, slot) > 1:
            return [(3, no_memory(slot, order))]
        alone.append(slot)
        return good(slot, order)

    stage.engine.script = fits_alone
    end = stage.run(cells(6), pool)
    assert end.progress.states["success"] == 6
    assert len(alone) == 1
    assert [n.data["differently"] for n in stage.said("cell_failed")] == ["alone"]
    assert stage.engine.orders[-1][1].endswith("benchmark-0")  # when it holds up nobody else


def test_a_cell_that_does_not_fit_on_a_small_gpu_gets_a_large_one(stage: Stage) -> None:
    ran: list[int] = []

    def fits_on_large(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        ran.append(memory_on(stage, slot) // 10**9)
        return [(1, no_memory(slot, order))] if ran[-1] < 40 else good(slot, order)

    stage.engine.script = fits_on_large
    end = stage.run(cells(1), mixed_gpus())
    assert end.progress.states["success"] == 1
    assert ran == [24, 80]
    assert stage.said("cell_failed")[0].data["differently"] == "on at least 26.4 GB"


def test_a_cell_that_fits_nowhere_fails_for_good_and_says_what_was_tried(stage: Stage) -> None:
    stage.engine.script = lambda slot, order: [(1, no_memory(slot, order))]
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

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        sizes.append(order.batch_size)
        kind: Any = next(kinds, None)
        if kind is None:
            return good(slot, order)
        if kind == "oom":
            stage.inbox.post(Interrupted(signal="SIGINT"), after=1.9)
        failure = Failure(stage="benchmark", kind=kind, message="no", retryable=True)
        return [
            (0, Started(slot=slot, attempt=order.attempt, stage="benchmark")),
            (2, Failed(slot=slot, attempt=order.attempt, failure=failure)),
        ]

    stage.engine.script = script
    wanted = [batched(sample_cell(), 8)]
    for _ in range(3):
        end = stage.run(wanted)
    assert end.progress.states["success"] == 1
    assert sizes == [8, 4, 4, 2]


def advised(stage: Stage, cell: Cell, advice: Advice) -> None:
    """What another runner leaves that ran out of memory under the cell."""
    stage.ledger.enroll([cell])
    offer = Offer(gpus=9, vram=10**12, among=frozenset({str(cell.fingerprint)}))
    (claim,) = stage.ledger.claim(RunnerId("other"), offer)
    failure = Failure(stage="benchmark", kind="oom", message="no room", retryable=True)
    stage.ledger.finish(
        claim.lease,
        Outcome(state="failed", failure=failure, retry_in=0, charged=False, advice=advice),
    )


def test_a_slot_that_is_not_what_another_runner_was_advised_gives_the_cell_back(
    stage: Stage,
) -> None:
    ran: dict[str, tuple[int, int]] = {}

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        ran[order.cell.id.rpartition("-")[2]] = (crowd(stage, slot), memory_on(stage, slot))
        return good(slot, order)

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
    assert stage.engine.orders[-1][1].endswith("benchmark-0")


def test_the_first_true_reason_is_not_overwritten_by_later_ones(stage: Stage) -> None:
    kinds = iter(["host_lost", "gpu_fault", "slot_lost", "timeout"])

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        kind: Any = next(kinds)
        failure = Failure(stage="benchmark", kind=kind, message=f"by {kind}", retryable=True)
        return [(1, Failed(slot=slot, attempt=order.attempt, failure=failure))]

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
    told = [n.message for n in stage.said("cell_failed")]
    assert told[:3] == [f"benchmark: {k} (by {k})" for k in ("host_lost", "gpu_fault", "slot_lost")]
    assert told[3] == record.outcome.why


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

    def fits(slot: SlotId, order: Order) -> bool:
        cell = wanted[int(order.cell.id.rpartition("-")[2])]
        enough = not sizes or memory_on(stage, slot) >= cell["fits_memory"] * 10**9
        few = crowd(stage, slot) <= cell["fits_crowd"]
        return enough and few and order.batch_size <= cell["fits_batch"]

    stage.engine.script = lambda slot, order: (
        good(slot, order) if fits(slot, order) else [(1, no_memory(slot, order))]
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


def cancels(stage: Stage, cell: Cell) -> None:
    stage.ledger.record(Event(kind="cancel_asked", fingerprint=cell.fingerprint))


def test_a_cancelled_cell_stops_after_the_sample_at_hand_and_keeps_its_slot(stage: Stage) -> None:
    wanted = cells(3)

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        events = good(slot, order)
        if "benchmark-0" in order.cell.id:
            cancels(stage, wanted[0])
            return events[:2]  # it answers once, and goes on for ever
        return events

    stage.engine.script = script
    one_slot = Pool(devices=CPU.devices[:1], slots=1)
    end = stage.run(wanted, one_slot)
    assert end.progress.states == {"success": 2, "cancelled": 1}
    assert len(stage.engine.opened) == 1
    assert end.seconds < 24
    assert stage.said("claim_lost") == []
    (told,) = stage.said("cell_cancelled")
    assert told.cell.endswith("benchmark-0")
    stage.ledger.record(Event(kind="retry_asked", fingerprint=wanted[0].fingerprint))
    stage.engine.script = good
    assert stage.run(wanted, one_slot).progress.states["success"] == 3


def test_samples_of_a_cancelled_cell_serve_its_next_attempt(stage: Stage) -> None:
    wanted = cells(1)
    handed: list[int] = []

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        handed.append(order.recorded.count(b"\n"))
        return good(slot, order)

    stage.engine.script = script
    stage.engine.stop = lambda slot, attempt: stage.inbox.post(  # type: ignore[method-assign]
        Stopped(slot=slot, attempt=attempt, reason="asked to"), after=0.1
    )
    seen = stage.watch

    def watch(notice: Notice, progress: Progress) -> None:
        seen(notice, progress)
        if notice.kind == "cell_progress" and [s.done for s in progress.slots.values()] == [1]:
            cancels(stage, wanted[0])

    stage.watch = watch  # type: ignore[method-assign]
    assert stage.run(wanted).progress.states == {"cancelled": 1}
    (told,) = stage.said("cell_cancelled")
    assert told.data["samples"] == 1
    stage.watch = seen  # type: ignore[method-assign]
    stage.ledger.record(Event(kind="retry_asked", fingerprint=wanted[0].fingerprint))
    stage.run(wanted)
    assert handed == [0, 1]


def test_a_cancelled_cell_that_does_not_stop_is_ended(stage: Stage) -> None:
    wanted = cells(1)

    def hangs(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        cancels(stage, wanted[0])
        return []

    stage.engine.script = hangs
    stage.engine.stop = lambda slot, attempt: None  # type: ignore[method-assign]
    end = stage.run(wanted)
    assert end.progress.states == {"cancelled": 1}
    assert 30 < end.seconds < 40


def test_a_cell_cancelled_while_it_ends_is_not_published(stage: Stage) -> None:
    wanted = cells(1)

    def script(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        cancels(stage, wanted[0])
        done = good(slot, order)[-1][1]
        return [(0.5, done)]

    stage.engine.script = script
    end = stage.run(wanted)
    assert end.progress.states == {"cancelled": 1}
    assert list(stage.folder.glob("tiny/*/*/cell.json")) == []
    assert [n.kind for n in stage.notices if n.kind.startswith("c") and n.cell][-1] == (
        "cell_cancelled"
    )


def test_pending_cells_that_are_cancelled_are_not_begun(stage: Stage) -> None:
    wanted = cells(4)
    stage.ledger.enroll(wanted)
    for cell in wanted[1:]:
        cancels(stage, cell)
    end = stage.run(wanted)
    assert end.progress.states == {"success": 1, "cancelled": 3}
    assert len(stage.engine.orders) == 1


def test_idle_slots_here_do_not_keep_a_run_waiting_for_ever_for_a_host(stage: Stage) -> None:
    """The one cell that is left needs a GPU, which a host that stays away may have."""
    stage.engine.far = ("lab",)
    end = stage.run([*cells(1), sample_cell(9, gpus=1)], CPU)
    assert end.progress.states == {"success": 1, "pending": 1}
    assert "no machine came" in end.broken


def test_a_disk_elsewhere_that_is_always_full_ends_its_cell_and_stops_no_other(
    stage: Stage,
) -> None:
    failure = Failure(stage="benchmark", kind="disk_full", message="no room", retryable=True)

    def no_scratch(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if "benchmark-0" in order.cell.id:
            return [(1, Failed(slot=slot, attempt=order.attempt, failure=failure))]
        return good(slot, order)

    stage.engine.script = no_scratch
    end = stage.run(cells(4))
    assert end.progress.states == {"failed": 1, "success": 3}
    assert sum("benchmark-0" in cell for _, cell in stage.engine.orders) == 6
    assert stage.said("warning") == []


def test_a_cell_that_hangs_when_cancelled_is_ended_though_it_was_asked_for_again(
    stage: Stage,
) -> None:
    wanted = cells(1)

    def hangs_once(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.orders) > 1:
            return good(slot, order)
        cancels(stage, wanted[0])
        return []

    def asked_again(slot: SlotId, attempt: str) -> None:
        stage.ledger.record(Event(kind="retry_asked", fingerprint=wanted[0].fingerprint))

    stage.engine.script = hangs_once
    stage.engine.stop = asked_again  # type: ignore[method-assign]
    end = stage.run(wanted, Pool(devices=CPU.devices[:1], slots=1))
    assert end.progress.states == {"success": 1}
    assert len(stage.engine.orders) == 2


def test_runners_that_were_stopped_are_no_lost_hosts(stage: Stage) -> None:
    """Many gave the cell back; the first host that it loses is the first."""
    wanted = cells(1)
    stage.ledger.enroll(wanted)
    for _ in range(12):
        (claim,) = stage.ledger.claim(RunnerId("other"), Offer())
        stage.ledger.release([claim.lease], "SIGTERM")

    def loses_its_host_once(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.orders) > 1:
            return good(slot, order)
        lost = Failure(stage="benchmark", kind="host_lost", message="it is off")
        return [(1, Failed(slot=slot, attempt=order.attempt, failure=lost))]

    stage.engine.script = loses_its_host_once
    assert stage.run(wanted).progress.states == {"success": 1}
    (finished, _) = [e for e in stage.ledger.events() if e.kind == "finished"]
    assert finished.data["outcome"]["charged"] is False


def test_an_interrupt_while_the_ledger_has_no_room_gives_the_cell_back(stage: Stage) -> None:
    def full(lease: Lease, outcome: Outcome) -> None:
        raise LedgerFull

    stage.ledger.finish = full  # type: ignore[method-assign]
    stage.engine.script = lambda slot, order: [
        *good(slot, order)[:-1],
        (9.2, good(slot, order)[-1][1]),
    ]
    runner = stage.runner(cells(1))
    stage.inbox.post(Interrupted(signal="SIGINT"), after=9)
    end = runner.run()
    assert end.interrupted
    assert len(stage.said("cell_released")) == 1
    assert stage.said("run_ended")


def test_nothing_is_waited_for_any_more_when_the_slots_are_ended(stage: Stage) -> None:
    seen: list[bool] = []
    stage.engine.shutdown = lambda: seen.append(stage.ending.is_set())  # type: ignore[method-assign]
    stage.run(cells(1))
    assert seen == [True]


def test_the_disk_that_took_no_more_is_named(stage: Stage) -> None:
    stage.inbox.post(NoRoom(), after=1)
    stage.run(cells(4))
    assert "the disk of the ledger is full" in stage.said("warning")[0].message
