"""Slots end with their owner and their supervisor, and what they started ends with them."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from benchfleet.engines.base import (
    Done,
    EngineEvent,
    Recorded,
    SlotLost,
    SlotReady,
)
from benchfleet.engines.child import Child
from benchfleet.engines.local import LocalEngine
from benchfleet.engines.slot_process import LocalProcess
from benchfleet.testing.engine_fixture import slot_id

from .conftest import Opened, gone, hostile, spec, started, supervisor_of, until

OWNER = """
import os, queue, sys
from benchfleet.domain.resource import Device
from benchfleet.engines.base import SlotSpec
from benchfleet.engines.local import LocalEngine
events = queue.SimpleQueue()
engine = LocalEngine(events.put)
for name in (f"{os.getpid()}-1", f"{os.getpid()}-2"):
    spec = SlotSpec(slot=name, devices=(Device(kind="cpu", index=0),), threads=1,
                    log=f"{sys.argv[1]}/{name}.log")
    engine.open(spec)
    print(events.get(timeout=60).hello["pid"], flush=True)
sys.stdin.read()
"""


PARENT = """
import os, subprocess, sys, time
nap = [sys.executable, "-c", "import time; time.sleep(600)"]
twice = "import os, subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
subprocess.Popen(nap)
subprocess.Popen(nap, start_new_session=True)
subprocess.Popen([sys.executable, "-c", twice, *nap], start_new_session=True, env={})
time.sleep(600)
"""

OWNER_OF_A_CELL = """
import os, queue, sys
from pathlib import Path
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Device
from benchfleet.engines.base import AttemptRequest, SlotReady, SlotSpec
from benchfleet.engines.local import LocalEngine
folder, program = sys.argv[1:]
events = queue.SimpleQueue()
engine = LocalEngine(events.put)
cpu, slot = (Device(kind="cpu", index=0),), f"{os.getpid()}-1"
engine.open(SlotSpec(slot=slot, devices=cpu, threads=1, log=f"{folder}/one.log"))
assert isinstance(events.get(timeout=60), SlotReady)
work = Workload(
    benchmark="command", version="1", outside={"folder": folder},
    params={"name": "parent", "argv": [sys.executable, "-c", program, folder]},
)
model = Model(name="mock", adapter="mock", source="", digest="mock")
cell = Cell(model=model, config=Config(name="dense"), workload=work)
engine.run(slot, AttemptRequest(attempt="f/1-1", cell=cell, log=f"{folder}/log.txt"))
sys.stdin.read()
"""


def test_slots_end_with_an_owner_that_is_terminated(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        slots = [int(owner.stdout.readline()) for _ in range(2)]
        owner.send_signal(signal.SIGTERM)
        owner.wait()
    assert all(gone(pid) for pid in slots)


def test_a_supervisor_that_closed_its_streams_may_exit_by_itself(tmp_path: Path) -> None:
    slow = "import os, time; os.closerange(0, 3); time.sleep(0.3)"
    process = LocalProcess(slot_id("slow"), [sys.executable, "-c", slow])
    child = Child(slot_id("slow"), process, log=tmp_path / "log", key="")
    child.open_streams.clear()
    assert child.release() == 0


def test_samples_sent_before_a_kill_are_not_lost(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    started(impatient, tmp_path)
    engine.run(slot_id(), hostile(tmp_path, samples=500, at=499, act="kill"))
    count = 0
    while not isinstance(event := events.get(timeout=60), SlotLost):
        count += isinstance(event, Recorded)
    assert count == 499


@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
def test_what_a_benchmark_started_ends_with_a_killed_runner(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER_OF_A_CELL, str(tmp_path), PARENT], stdin=subprocess.PIPE
    )
    with owner:
        deadline = time.monotonic() + 60
        naps: set[int] = set()
        while len(naps) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
            family = psutil.Process(owner.pid).children(recursive=True)
            naps = {each.pid for each in family if is_nap(each)}
        assert len(naps) >= 3  # one that forks shows twice for a moment
        owner.kill()
    assert all(gone(pid) for pid in naps)


def is_nap(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[-1:] == ["import time; time.sleep(600)"]
    except psutil.Error:
        return False


def test_an_order_to_a_slot_that_just_died_harms_no_other(tmp_path: Path) -> None:
    events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
    busy, go_on = threading.Event(), threading.Event()

    def post(event: EngineEvent) -> None:
        events.put(event)
        if isinstance(event, SlotReady) and event.slot == slot_id("second"):
            busy.set()
            go_on.wait(60)

    engine = LocalEngine(post)
    first = started((engine, events), tmp_path, slot="first")
    supervisor = supervisor_of(first)
    engine.open(spec(tmp_path, slot="second"))
    assert busy.wait(60)
    supervisor.kill()
    assert gone(supervisor.pid)
    engine.run(slot_id("first"), hostile(tmp_path))
    go_on.set()
    assert until(events, SlotLost).slot == slot_id("first")
    engine.run(slot_id("second"), hostile(tmp_path, samples=1))
    assert until(events, Done).slot == slot_id("second")
    engine.shutdown()


def test_a_slot_that_is_closed_does_what_was_left_to_its_end(
    tmp_path: Path, impatient: Opened
) -> None:
    engine, events = impatient
    started(impatient, tmp_path)
    engine.run(slot_id(), hostile(tmp_path, act="owe", shared=str(tmp_path / "debt")))
    until(events, Done)
    engine.close(slot_id())
    lost = until(events, SlotLost)
    assert (lost.expected, lost.exit_code) == (True, 0)
    assert (tmp_path / "debt").read_text() == "paid"
