"""What every engine must do, as a suite that any engine can be put through.

Derive from `EngineContract` in a test module and write `make_engine`::

    class TestMyEngine(EngineContract):
        def make_engine(self, post): return MyEngine(post)

An engine that reaches hosts names one of them as `host`; the suite opens its slots there. That
host is this machine by another way, so that the suite can see what becomes of its processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchfleet.engines.base import (
    AttemptEvent,
    Done,
    Engine,
    EngineEvent,
    Failed,
    FileSent,
    HostReady,
    Measured,
    Recorded,
    SlotLost,
    Started,
    Stopped,
)
from benchfleet.engines.frames import MAX_ATTACHED_BYTES
from benchfleet.testing.engine_endings import SlotEndings
from benchfleet.testing.engine_fixture import EVENT_TIMEOUT_S, Bench, Events, slot_id
from benchfleet.testing.misbehaving_benchmark import NOISE, ODD


class EngineContract(SlotEndings):
    """The behaviour of an engine; see `benchfleet.engines.base`. How slots end is in a file of its
    own."""

    host = ""  # where the slots are opened; "" for this machine
    chooses_gpus = False  # True: the engine chooses which of a host's GPUs a slot gets

    def make_engine(self, post: Callable[[EngineEvent], None]) -> Engine:
        raise NotImplementedError

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        events = Events()
        engine = self.make_engine(events.put)
        bench = Bench(engine, events, tmp_path, host=self.host)
        assert (self.host in engine.hosts()) is bool(self.host)
        if self.host:
            ready = bench.until(HostReady)[-1]
            assert isinstance(ready, HostReady)
            assert {device.host for device in ready.devices} == {self.host}
        yield bench
        engine.shutdown()
        assert list(engine.slots()) == []

    def test_a_slot_reports_what_it_is_bound_to(self, bench: Bench) -> None:
        hello = bench.open(gpus=(3, 5)).hello
        if self.chooses_gpus:
            assert len(set(hello["gpus"].split(","))) == 2
        else:
            assert hello["gpus"] == "3,5"
        assert hello["threads"] == "1"

    def test_a_cpu_slot_sees_no_gpu(self, bench: Bench) -> None:
        assert bench.open().hello["gpus"] == ""

    def test_an_order_goes_through_its_stages_and_is_done(self, bench: Bench) -> None:
        bench.open()
        attempt = bench.run(samples=3)
        seen = bench.until(Done)
        stages = [event.stage for event in seen if isinstance(event, Started)]
        assert stages == ["load", "benchmark"]
        lines = b"".join(event.lines for event in seen if isinstance(event, Recorded))
        indices = [json.loads(line)["index"] for line in lines.splitlines()]
        assert indices == [0, 1, 2]
        assert all(event.attempt == attempt for event in seen if isinstance(event, AttemptEvent))

    def test_a_slot_is_measured_when_an_order_begins_and_when_it_ends(self, bench: Bench) -> None:
        bench.open()
        attempt = bench.run(samples=3, seconds=0.1)
        measured = [event for event in bench.until(Done) if isinstance(event, Measured)]
        assert {event.attempt for event in measured} == {attempt}
        first, *_, last = (event.reading for event in measured)
        assert first.at == 0.0 < 0.2 < last.at
        assert first.gpus == ()
        assert last.ram
        assert last.cpu is not None

    def test_a_slot_keeps_its_process_from_order_to_order(self, bench: Bench) -> None:
        pid = bench.open().hello["pid"]
        for _ in range(3):
            bench.run(samples=1)
            (recorded,) = [e for e in bench.until(Done) if isinstance(e, Recorded)]
            assert json.loads(recorded.lines)["columns"]["pid"] == pid

    def test_samples_of_an_earlier_attempt_are_not_asked_again(self, bench: Bench) -> None:
        bench.open()
        line = {"index": 0, "id": "sample-0", "columns": {}, "predicted_answer": "yes"}
        bench.run(samples=2, recorded=json.dumps(line).encode() + b"\n")
        seen = bench.until(Done)
        recorded = [event for event in seen if isinstance(event, Recorded)]
        assert [json.loads(event.lines)["index"] for event in recorded] == [1]
        assert recorded[0].done == 2

    def test_earlier_samples_larger_than_a_frame_are_taken_up(self, bench: Bench) -> None:
        bench.open()
        column = "x" * (16 * 2**20)
        line = {
            "index": 0,
            "id": "sample-0",
            "columns": {"context": column},
            "predicted_answer": "",
        }
        whole = json.dumps(line).encode() + b"\n"
        bench.run(samples=2, recorded=whole * (MAX_ATTACHED_BYTES // len(whole) + 2))
        recorded = [event for event in bench.until(Done) if isinstance(event, Recorded)]
        assert [json.loads(event.lines)["index"] for event in recorded] == [1]

    def test_an_order_too_large_to_be_sent_fails_and_harms_nothing(self, bench: Bench) -> None:
        bench.open()
        bench.run(recorded=bytes(MAX_ATTACHED_BYTES + 1))
        failed = bench.until(Failed)[-1]
        assert isinstance(failed, Failed)
        assert "too large" in failed.failure.message
        bench.run(samples=1)
        bench.until(Done)

    def test_a_slot_that_cannot_start_is_lost_with_a_reason(self, bench: Bench) -> None:
        (bench.folder / "taken").touch()
        bench.engine.open(bench.spec(log=str(bench.folder / "taken" / "slot.log")))
        lost = bench.events.get(timeout=EVENT_TIMEOUT_S)
        assert isinstance(lost, SlotLost)
        assert not lost.expected
        assert str(bench.folder / "taken") in lost.reason

    def test_an_error_is_a_failure_with_its_trace_and_the_slot_lives_on(self, bench: Bench) -> None:
        bench.open()
        bench.run(act="raise")
        failed = bench.until(Failed)[-1]
        assert isinstance(failed, Failed)
        assert (failed.failure.stage, failed.failure.kind) == ("benchmark", "error")
        assert "on purpose" in failed.failure.trace
        bench.run(samples=1)
        bench.until(Done)

    def test_running_out_of_memory_has_its_own_name(self, bench: Bench) -> None:
        bench.open()
        bench.run(act="memory")
        failed = bench.until(Failed)[-1]
        assert isinstance(failed, Failed)
        assert failed.failure.kind == "oom"
        assert failed.failure.retryable

    def test_a_benchmark_gets_the_effective_batch_size(self, bench: Bench) -> None:
        bench.open()
        for batch_size, ends in ((0, Done), (3, Failed), (2, Done)):
            bench.run(act="memory", size=2, batch_size=batch_size)
            assert isinstance(bench.until(Done, Failed)[-1], ends)

    def test_a_failure_when_all_was_answered_is_one_of_collecting(self, bench: Bench) -> None:
        bench.open()
        bench.run(act="score")
        *before, failed = bench.until(Failed)
        assert isinstance(failed, Failed)
        assert failed.failure.stage == "collect"
        assert sum(isinstance(event, Recorded) for event in before) == 3

    def test_a_benchmark_that_calls_exit_is_a_failure(self, bench: Bench) -> None:
        bench.open()
        bench.run(act="leave")
        assert isinstance(bench.until(Failed, SlotLost)[-1], Failed)

    def test_a_stopped_order_ends_after_the_sample_at_hand(self, bench: Bench) -> None:
        bench.open()
        attempt = bench.run(samples=10_000, seconds=0.01)
        bench.until(Recorded)
        bench.engine.stop(slot_id(), attempt)
        stopped = bench.until(Stopped, Done)[-1]
        assert isinstance(stopped, Stopped)
        bench.run(samples=1)
        bench.until(Done)

    def test_what_a_cell_prints_goes_to_its_log_and_not_into_the_frames(self, bench: Bench) -> None:
        bench.open()
        bench.run(act="print")
        bench.until(Done)
        assert NOISE in bench.log()
        assert b"a line on stdout" in bench.log()
        assert b"a line on stderr" in bench.log()

    def test_a_log_line_of_100_megabytes_harms_nothing(self, bench: Bench) -> None:
        bench.open()
        bench.run(act="flood", size=100 * 2**20)
        bench.until(Done)
        assert len(bench.log()) >= 100 * 2**20

    def test_files_left_by_a_benchmark_arrive_whole_and_links_do_not(self, bench: Bench) -> None:
        bench.open()
        size = 5 * 2**20 + 7
        bench.run(act="files", size=size)
        sent: dict[str, bytes] = {}
        for event in bench.until(Done):
            if isinstance(event, FileSent):
                sent[event.name] = sent.get(event.name, b"") + event.data
        assert sent == {"nested/big.bin": b"x" * size, "empty.txt": b"", ODD: b""}

    def test_hostile_text_in_an_answer_arrives_as_it_is(self, bench: Bench) -> None:
        bench.open()
        bench.run(act="unicode", samples=1)
        (recorded,) = [e for e in bench.until(Done) if isinstance(e, Recorded)]
        assert json.loads(recorded.lines)["predicted_answer"] == "\udce9\x00\u2028"

    def test_slots_work_side_by_side(self, bench: Bench) -> None:
        pids = {bench.open(number).hello["pid"] for number in (1, 2, 3)}
        assert len(pids) == 3
        for number in (1, 2, 3):
            bench.run(number, samples=2)
        done: set[str] = set()
        while len(done) < 3:
            ended = bench.until(Done)[-1]
            assert isinstance(ended, Done)
            done.add(ended.slot)
        assert done == {slot_id(1), slot_id(2), slot_id(3)}
