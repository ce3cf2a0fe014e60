"""A slot measures all that it started, and its GPUs, without ever failing a cell."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.machines.nvml import RECORDING
from benchfleet.slot.launch import slot_environment
from benchfleet.slot.telemetry import Meter, Sampler

_BURN = """
import sys
held = bytearray(b"x") * 50_000_000
while sum(__import__("os").times()[:2]) < 0.3: pass
print("there", flush=True)
sys.stdin.read()
"""


def test_what_a_child_holds_and_computes_is_measured() -> None:
    before = Meter(os.getpid()).read()
    child = subprocess.Popen(
        [sys.executable, "-c", _BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        after = Meter(os.getpid()).read()
        child.communicate(b"")
    assert before.cpu is not None
    assert after.cpu is not None
    assert after.ram is not None
    assert after.ram - (before.ram or 0) > 50_000_000
    assert after.cpu - before.cpu >= 0.25
    gone = Meter(os.getpid()).read()
    assert gone.cpu is not None
    assert gone.cpu >= after.cpu


def recording(file: Path, monkeypatch: pytest.MonkeyPatch, *gpus: dict[str, object]) -> None:
    file.write_text(json.dumps({"gpus": gpus}))
    monkeypatch.setenv(RECORDING, str(file))


def test_the_gpus_of_the_slot_are_measured_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"pid": os.getpid(), "memory": 30}
    theirs = {"pid": os.getppid(), "memory": 5}
    busy = {"memory": 80, "free": 40, "power": 300.5, "utilisation": 90, "temperature": 61}
    recording(
        tmp_path / "nvml.json",
        monkeypatch,
        {"index": 0, **busy},
        {"index": 1, **busy, "processes": [ours, theirs]},
        {"index": 2, "lost": "GPU is lost"},
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    meter = Meter(os.getppid())
    one, lost = meter.read().gpus
    assert one == GpuReading(
        index=1,
        memory=40,
        total=80,
        own=30,
        utilisation=90,
        power=300.5,
        temperature=61,
        others=True,
    )
    assert lost == GpuReading(index=2)


def test_a_driver_that_cannot_be_asked_is_reported_once_and_measured_as_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nvml.json"
    file.write_text(json.dumps({"error": "driver/library version mismatch"}))
    monkeypatch.setenv(RECORDING, str(file))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    meter = Meter(os.getpid())
    assert meter.read().gpus == meter.read().gpus == (GpuReading(index=0),)
    assert capsys.readouterr().err.count("GPUs are not measured: driver/library") == 1


def test_the_free_memory_of_its_machine_is_reported_on_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Meter(os.getpid()).read().room() == {}
    order = {"threads": 1, "gpus": "", "slot": "s", "tells_room": True}
    name = "BENCHFLEET_TELLS_ROOM"
    monkeypatch.setenv(name, slot_environment({}, order)[name])
    reading = Reading.from_dict(Meter(os.getpid()).read().to_dict())
    room = reading.room()["cpu"]
    assert 0 < room.free < room.total
    assert room.busy is not None


def test_a_slot_without_gpus_asks_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RECORDING, "/nowhere")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert Meter(os.getpid()).read().gpus == ()


def test_readings_count_from_the_first_and_one_is_taken_at_the_end() -> None:
    handed: queue.SimpleQueue[tuple[str, Reading]] = queue.SimpleQueue()
    times = iter([Reading(at=100.0, cpu=7.0), Reading(at=107.0, cpu=8.0)])
    sampler = Sampler(lambda *given: handed.put(given), times.__next__, every=1e6)
    sampler.begin("f/1-1")
    last = sampler.end()
    assert last == Reading(at=7.0, cpu=1.0)
    assert handed.get_nowait() == ("f/1-1", Reading(at=0.0, cpu=0.0))
    assert handed.get_nowait() == ("f/1-1", last)
    assert handed.empty()


def test_readings_go_on_until_the_end_and_not_beyond() -> None:
    handed: queue.SimpleQueue[str] = queue.SimpleQueue()
    sampler = Sampler(lambda attempt, _: handed.put(attempt), lambda: Reading(at=0.0), every=0.001)
    for attempt in ("f/1-1", "f/2-2"):
        sampler.begin(attempt)
        assert [handed.get(timeout=60) for _ in range(4)] == [attempt] * 4
        sampler.end()
        while not handed.empty():
            assert handed.get() == attempt


def test_a_meter_that_fails_fails_no_cell(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> Reading:
        raise RuntimeError("no meter")

    sampler = Sampler(lambda *_: pytest.fail("nothing was measured"), broken, every=1e6)
    sampler.begin("f/1-1")
    assert sampler.end() is None
    assert "could not be measured: RuntimeError('no meter')" in capsys.readouterr().err


def test_a_driver_that_hangs_holds_up_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchfleet.slot.telemetry.HUNG_S", 0.01)
    hangs, freed = threading.Event(), threading.Event()
    answers = iter([Reading(at=0.0)])

    def measure() -> Reading:
        if (answer := next(answers, None)) is not None:
            return answer
        hangs.set()
        freed.wait(60)
        return Reading(at=1.0)

    sampler = Sampler(lambda *_: None, measure, every=0.001)
    sampler.begin("f/1-1")
    hangs.wait(60)
    assert sampler.end() is None
    freed.set()
