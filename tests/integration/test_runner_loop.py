"""The runner's loop on a real results tree, with scripted slots in virtual time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Limits
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Device, Offer
from benchfleet.engines.base import (
    Calling,
    Done,
    Failed,
    FileSent,
    Order,
    SlotEvent,
    SlotId,
    SlotLost,
    Stopped,
)
from benchfleet.errors import ClaimLost, LedgerAway, LedgerFull
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.ending.cells import HOLD
from benchfleet.runner.inbox import Arrival, Changed, Interrupted, LeaseLost, NoRoom
from benchfleet.runner.progress import Notice, Progress
from benchfleet.runner.slots.place import Pool
from benchfleet.testing.samples import sample_cell
from stage import CPU, GPUS, Stage, VirtualInbox, cells, good, mixed_gpus, sample


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


def test_a_sample_is_on_the_disk_a_moment_after_it_came(stage: Stage) -> None:
    seen: list[tuple[float, int]] = []
    began = stage.clock()

    class Looking(VirtualInbox):
        def take(self, wait: float) -> Arrival | None:
            files = stage.layout.attempts.glob("*/*/samples.jsonl")
            kept = sum(len(file.read_text().splitlines()) for file in files)
            if kept > len(seen):
                seen.append((self.clock() - began, kept))
            return super().take(wait)

    stage.inbox = stage.engine.inbox = Looking(stage.clock)
    stage.run(cells(1))
    assert seen == [(pytest.approx(4.0, abs=HOLD), 1), (pytest.approx(8.0, abs=HOLD), 2)]


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
    stage.engine.script = lambda slot, order: []
    slow = replace(sample_cell(), limits=Limits(cell=30, tries=1))
    end = stage.run([slow])
    assert end.progress.states.get("failed") == 1
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == "timeout"


def limited(**limits: float) -> Cell:
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


def test_what_a_machine_that_slept_holds_is_its_own_when_it_wakes(stage: Stage) -> None:
    """A clock that stands still in sleep says nothing of it, and the leases ran out meanwhile."""

    def sleeps(notice: Notice, progress: Progress) -> None:
        stage.notices.append(notice)
        if notice.kind == "cell_progress":
            stage.slept = 8 * 3600

    stage.renew_every = 12
    stage.watch = sleeps  # type: ignore[method-assign]
    end = stage.run([limited(cell=30)])
    assert end.progress.states == {"success": 1}
    assert len(stage.engine.orders) == 1
    assert not stage.said("warning")


def test_what_a_dead_runner_held_comes_back_after_the_machine_slept(stage: Stage) -> None:
    stage.renew_every = 12
    stage.ledger.enroll(cells(2))
    stage.ledger.claim(RunnerId("dead"), Offer(), 1)
    stage.slept = 3600
    assert stage.run(cells(2)).progress.states == {"success": 2}


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


def test_a_cell_that_ended_while_all_were_counted_is_not_counted_twice(stage: Stage) -> None:
    def robbed(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.keeper.held()) == 2 and not stage.thief:
            lease = next(one for one in stage.keeper.held() if one.fingerprint in order.attempt)
            stage.ledger.release([lease], "taken away behind our back")
            (stage.thief,) = stage.ledger.claim(RunnerId("thief"), Offer(), 1)
            stage.inbox.post(LeaseLost(lease=lease), after=10)  # with the end of the other
            return good(slot, order)[:-1]
        return good(slot, order)

    def watched(notice: Notice, progress: Progress) -> None:
        if notice.kind == "cell_done":
            shown.append({state: count for state, count in progress.states.items() if count})

    shown: list[dict[str, int]] = []
    stage.engine.script, stage.watch = robbed, watched  # type: ignore[method-assign]
    stage.run(cells(2))
    assert shown[0] == {"success": 1, "running": 1}


def test_a_runner_that_only_waited_shows_how_all_ended(stage: Stage) -> None:
    stage.ledger.enroll(cells(1))
    (claim,) = stage.ledger.claim(RunnerId("other"), Offer(), 1)
    lost = LeaseLost(lease=claim.lease)  # nothing of ours: it only comes at that time
    stage.inbox.post(lost, after=1)

    def watched(notice: Notice, progress: Progress) -> None:
        if notice.kind == "waiting":
            stage.ledger.finish(claim.lease, Outcome(state="failed"))

    stage.watch = watched  # type: ignore[method-assign]
    end = stage.run(cells(1))
    assert (end.ran, end.progress.states) == (0, {"failed": 1})


class GoneAtTheEnd(MemoryLedger):
    """On a server that goes away when the run ends, for whoever has slots to serve."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(clock=stage.clock, lease=60)
        self._stage, self.away = stage, False

    def cells(self, **named: Any) -> Iterator[CellRecord]:
        if self.away and self._stage.serving.is_set():
            raise LedgerAway("no answer")
        yield from super().cells(**named)


def test_the_last_counts_are_waited_for(stage: Stage) -> None:
    stage.ledger = ledger = GoneAtTheEnd(stage)
    ledger.enroll(cells(2))
    (claim,) = ledger.claim(RunnerId("other"), Offer(), 1)
    stage.engine.shutdown = lambda: setattr(ledger, "away", True)  # type: ignore[method-assign]

    def watched(notice: Notice, progress: Progress) -> None:
        stage.notices.append(notice)
        if notice.cell and notice.kind == "waiting":
            ledger.finish(claim.lease, Outcome(state="failed"))

    stage.watch = watched  # type: ignore[method-assign]
    stage.inbox.post(LeaseLost(lease=claim.lease), after=20)  # nothing of ours: it comes then
    end = stage.run(cells(2))
    assert ledger.away
    assert (end.ran, end.progress.states) == (1, {"success": 1, "failed": 1})
    assert "the ledger's server" in stage.said("waiting")[-1].message  # nobody wonders why
    assert stage.serving.is_set()


def test_what_comes_too_late_for_a_published_cell_leaves_nothing_behind(stage: Stage) -> None:
    def late(slot: SlotId, order: Order) -> Sequence[tuple[float, SlotEvent]]:
        if stage.thief is None:
            (lease,) = stage.keeper.held()
            stage.ledger.release([lease], "taken away behind our back")
            (claim,) = stage.ledger.claim(RunnerId("thief"), Offer(), 1)
            stage.ledger.finish(claim.lease, Outcome(state="success", digest="theirs"))
            shutil.rmtree(stage.layout.attempts)  # as theirs does once it is published
            stage.layout.published(claim.path).mkdir(parents=True)
            stage.thief = claim
        sent = FileSent(slot=slot, attempt=order.attempt, name="notes/a.txt", data=b"late")
        return [(1, sent), *good(slot, order)]

    stage.engine.script = late
    stage.run(cells(1))
    assert stage.said("claim_lost")
    assert list(stage.layout.attempts.glob("*/*")) == []


class Slow:
    """A ledger after whose first claim its runner is stopped past the lease, while `meanwhile`
    happens."""

    def __init__(self, stage: Stage, meanwhile: Callable[[], None]) -> None:
        self._stage, self._ledger, self._meanwhile = stage, stage.ledger, meanwhile
        self._stopped = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def claim(self, runner: RunnerId, offer: Offer, limit: int = 1) -> Sequence[Claim]:
        claims = self._ledger.claim(runner, offer, limit)
        if claims and not self._stopped:
            self._stopped = True
            self._stage.slept += 61
            self._meanwhile()
        return claims


def test_a_lease_that_ran_out_before_its_attempt_began_is_noticed_before_a_slot_has_it(
    stage: Stage,
) -> None:
    def taken_over() -> None:
        stage.ledger.reap()
        (claim,) = stage.ledger.claim(RunnerId("thief"), Offer(), 1)
        stage.ledger.finish(claim.lease, Outcome(state="success", digest="theirs"))
        stage.layout.published(claim.path).mkdir(parents=True)

    stage.renew_every = 12
    stage.ledger = Slow(stage, taken_over)  # type: ignore[assignment]
    end = stage.run(cells(1))
    assert stage.engine.orders == []
    assert stage.said("claim_lost")
    assert (end.ran, end.progress.states) == (0, {"success": 1})
    assert list(stage.layout.attempts.glob("*/*")) == []


def test_a_runner_stopped_past_a_lease_that_nobody_took_goes_on_with_it(stage: Stage) -> None:
    stage.renew_every = 12
    stage.ledger = Slow(stage, lambda: None)  # type: ignore[assignment]
    stage.run(cells(1))
    assert len(stage.engine.orders) == 1
    (record,) = stage.ledger.cells()
    assert (record.state, record.attempt) == ("success", 1)


def left_behind(stage: Stage, name: str, *files: str) -> Path:
    """An attempt of the only cell that nobody goes on with."""
    (record,) = stage.ledger.cells()
    folder = stage.layout.attempts_of(record.fingerprint) / name
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).touch()
    return folder


def test_what_a_killed_runner_left_of_a_published_cell_is_removed_by_the_next_run(
    stage: Stage,
) -> None:
    stage.run(cells(1))
    too_late = left_behind(stage, "1-7", "log.txt")
    failed = left_behind(stage, "2-8", "failure.json")
    scored = left_behind(stage, "rescored-1", "log.txt")
    stage.run(cells(1))
    assert not too_late.exists()
    assert failed.is_dir()
    assert scored.is_dir()


def test_attempts_of_a_cell_whose_result_is_not_at_its_place_are_kept(stage: Stage) -> None:
    stage.run(cells(1))
    (path,) = stage.states()
    shutil.rmtree(stage.layout.published(path))
    kept = left_behind(stage, "1-7", "log.txt")
    stage.run(cells(1))
    assert kept.is_dir()


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


@pytest.mark.parametrize(("told", "begun"), [(True, 0.4), (False, 1.0)])
def test_what_others_give_back_is_claimed_when_the_ledger_tells_of_it(
    stage: Stage, told: bool, begun: float
) -> None:
    stage.ledger.enroll(cells(1))
    (claim,) = stage.ledger.claim(RunnerId("other"), Offer(), 1)

    stage.inbox.post(LeaseLost(lease=claim.lease), after=0.3)  # nothing of ours: it only comes
    take = stage.inbox.take

    def taken(wait: float) -> Arrival | None:
        arrival = take(wait)
        if isinstance(arrival, LeaseLost):
            stage.ledger.release([claim.lease], "given back")
            if told:
                stage.inbox.post(Changed())
        return arrival

    stage.inbox.take = taken  # type: ignore[method-assign]
    end = stage.run(cells(1))
    assert end.progress.states == {"success": 1}
    assert end.seconds == pytest.approx(10 + begun)


def test_cells_held_by_another_runner_are_waited_for_and_taken_when_it_dies(stage: Stage) -> None:
    stage.ledger.enroll(cells(1))
    stage.ledger.claim(RunnerId("other"), Offer(), 1)
    end = stage.run(cells(1))
    assert end.progress.states == {"success": 1}
    assert end.seconds >= 60
    (waits,) = stage.said("waiting")
    assert waits.cell == "tiny/dense/benchmark-0"
    assert waits.message.startswith("runner other holds it")
    (back,) = stage.said("warning")
    assert back.cell == waits.cell  # by its name
    assert back.message == "the lease of its runner ran out; taken back"


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


class EndsTogether(MemoryLedger):
    """A ledger that is told of several ends at once; the first is refused, where that is asked."""

    def __init__(self, stage: Stage, *, refuses: bool = False) -> None:
        super().__init__(clock=stage.clock, lease=60)
        self.told: list[int] = []
        self._refuses = refuses

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        self.told.append(len(ended))
        if refuses := self._refuses:
            self._refuses = False
        for lease, outcome in ended[refuses:]:
            self.finish(lease, outcome)
        return [ClaimLost("another has it") if refuses else None, *[None] * (len(ended) - 1)]


def write_by_twos(stage: Stage, times: int) -> None:
    """So many times what two slots ended comes while what ended before is written."""
    waiting: list[Callable[[], None]] = []
    gave: list[object] = []

    def background(work: Callable[[], None]) -> None:
        gave.append(work)
        waiting.append(work)
        if len(waiting) == 2 or len(gave) > 2 * times:
            while waiting:
                waiting.pop()()

    stage.background, stage.moment = background, 0


def at_once(slot: SlotId, order: Order) -> list[tuple[float, SlotEvent]]:
    return [(1, event) for _, event in good(slot, order)]


def test_short_cells_that_end_together_are_told_to_the_ledger_together(stage: Stage) -> None:
    stage.ledger = EndsTogether(stage)
    stage.engine.script = at_once
    write_by_twos(stage, 3)
    end = stage.run(cells(6))
    assert stage.ledger.told == [2, 2, 2]
    assert (end.ran, end.progress.states) == (6, {"success": 6})
    assert all(stage.layout.published(path).is_dir() for path in stage.states())


def test_of_those_that_end_together_only_what_was_refused_is_not_published(stage: Stage) -> None:
    stage.ledger = EndsTogether(stage, refuses=True)
    stage.engine.script = at_once
    write_by_twos(stage, 1)
    end = stage.run(cells(2))
    first, again = (notice.cell for notice in stage.said("cell_done"))
    assert [notice.cell for notice in stage.said("claim_lost")] == [again]
    assert first != again
    assert stage.ledger.told == [2]
    assert end.progress.states == {"success": 2}


def test_a_cell_with_samples_in_its_file_holds_up_no_others(stage: Stage) -> None:
    stage.ledger = EndsTogether(stage)
    write_by_twos(stage, 2)
    assert stage.run(cells(4)).progress.states == {"success": 4}
    assert stage.ledger.told == []
