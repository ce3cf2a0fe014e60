"""What only real processes show: slots that end with their owner, go silent, or lie."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Device
from benchfleet.engines.base import Done, Order, Recorded, SlotEvent, SlotId, SlotLost, SlotReady
from benchfleet.engines.base import SlotSpec as Spec
from benchfleet.engines.local import LocalEngine

OWNER = """
import queue, sys
from benchfleet.domain.resource import Device
from benchfleet.engines.base import SlotSpec
from benchfleet.engines.local import LocalEngine
events = queue.SimpleQueue()
engine = LocalEngine(events.put)
for name in ("one", "two"):
    spec = SlotSpec(slot=name, devices=(Device(kind="cpu", index=0),), threads=1,
                    log=f"{sys.argv[1]}/{name}.log")
    engine.open(spec)
    print(events.get(timeout=60).hello["pid"], flush=True)
sys.stdin.read()
"""


def spec(folder: Path, *, slot: str = "slot", python: str = "") -> Spec:
    cpu = (Device(kind="cpu", index=0),)
    return Spec(
        slot=SlotId(slot), devices=cpu, threads=1, log=str(folder / "slot.log"), python=python
    )


def hostile(folder: Path, **params: object) -> Order:
    cell = Cell(
        model=Model(name="mock", adapter="mock", source="", digest="mock"),
        config=Config(name="dense"),
        workload=Workload(benchmark="_hostile", version="1", params=params),
    )
    return Order(attempt=f"{'0' * 64}/1-1", cell=cell, log=str(folder / "log.txt"))


Opened = tuple[LocalEngine, "queue.SimpleQueue[SlotEvent]"]


@pytest.fixture
def impatient() -> Iterator[Opened]:
    events: queue.SimpleQueue[SlotEvent] = queue.SimpleQueue()
    engine = LocalEngine(events.put, heartbeat=0.05, silence=0.5)
    yield engine, events
    engine.shutdown()


def until(events: queue.SimpleQueue[SlotEvent], kind: type[SlotEvent]) -> SlotEvent:
    while not isinstance(event := events.get(timeout=60), kind):
        continue
    return event


def gone(pid: int) -> bool:
    """Waits for the process to end; a zombie that nobody waited for has ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_slots_end_with_their_owner_however_it_ends(tmp_path: Path, number: int) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        slots = [int(owner.stdout.readline()) for _ in range(2)]
        owner.send_signal(number)
        owner.wait()
    assert all(gone(pid) for pid in slots)


def test_a_slot_that_hears_nothing_ends_itself(tmp_path: Path) -> None:
    events: queue.SimpleQueue[SlotEvent] = queue.SimpleQueue()
    engine = LocalEngine(events.put, heartbeat=3600, silence=0.3)
    engine.open(spec(tmp_path))
    ready = until(events, SlotReady)
    assert isinstance(ready, SlotReady)
    until(events, SlotLost)
    engine.shutdown()
    assert "heard nothing for 0.3 s" in (tmp_path / "slot.log").read_text()


def test_a_stopped_slot_is_noticed_and_ended(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    ready = until(events, SlotReady)
    assert isinstance(ready, SlotReady)
    os.kill(ready.hello["pid"], signal.SIGSTOP)
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert lost.reason.startswith("silent for")
    assert not lost.expected
    assert gone(ready.hello["pid"])


def test_a_slot_that_computes_is_not_taken_for_silent(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotReady)
    engine.run(SlotId("slot"), hostile(tmp_path, samples=2, seconds=0.8))
    until(events, Done)


def test_an_interpreter_that_is_not_there_loses_its_slot(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path, python="/nowhere/python"))
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert "/nowhere/python" in (tmp_path / "slot.log").read_text()


def test_another_interpreter_serves_without_benchfleet_installed_in_it(
    tmp_path: Path, impatient: Opened
) -> None:
    bare = tmp_path / "bare"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", str(bare)],
        check=True,
    )
    engine, events = impatient
    engine.open(spec(tmp_path, python=str(bare / "bin" / "python")))
    assert isinstance(until(events, SlotReady), SlotReady)


def test_a_module_of_the_working_folder_does_not_hide_a_real_one(
    tmp_path: Path, impatient: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    (tmp_path / "benchfleet.py").write_text("raise SystemExit('the wrong benchfleet')")
    monkeypatch.chdir(tmp_path)
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotReady)
    engine.run(SlotId("slot"), hostile(tmp_path, samples=1))
    until(events, Done)


def test_samples_sent_before_a_kill_are_not_lost(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotReady)
    engine.run(SlotId("slot"), hostile(tmp_path, samples=500, at=499, act="kill"))
    count = 0
    while not isinstance(event := events.get(timeout=60), SlotLost):
        count += isinstance(event, Recorded)
    assert count == 499
