"""What only real processes show: slots that end with their owner, go silent, or lie."""

from __future__ import annotations

import errno
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import benchfleet
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    Done,
    EngineEvent,
    Order,
    Progressed,
    Recorded,
    SlotEvent,
    SlotLost,
    SlotQuiet,
    SlotReady,
)
from benchfleet.engines.base import SlotSpec as Spec
from benchfleet.engines.local import LocalEngine
from benchfleet.engines.processes import end_tree
from benchfleet.testing.engine_bench import slot_id

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
from benchfleet.engines.base import Order, SlotReady, SlotSpec
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
engine.run(slot, Order(attempt="f/1-1", cell=cell, log=f"{folder}/log.txt"))
sys.stdin.read()
"""


def spec(folder: Path, *, slot: str = "1", python: str = "") -> Spec:
    cpu = (Device(kind="cpu", index=0),)
    return Spec(
        slot=slot_id(slot), devices=cpu, threads=1, log=str(folder / "slot.log"), python=python
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


def until(
    events: queue.SimpleQueue[SlotEvent], kind: type[SlotEvent] | tuple[type[SlotEvent], ...]
) -> SlotEvent:
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
    engine = LocalEngine(events.put, heartbeat=3600, patience=0.3)
    engine.open(spec(tmp_path))
    ready = until(events, SlotReady)
    assert isinstance(ready, SlotReady)
    until(events, SlotLost)
    engine.shutdown()
    assert "heard nothing for 0.3 s" in (tmp_path / "slot.log").read_text()


def test_a_slot_stopped_with_its_supervisor_is_missed_and_ended(
    tmp_path: Path, impatient: Opened
) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    ready = until(events, SlotReady)
    assert isinstance(ready, SlotReady)
    supervisor_of(ready).suspend()
    os.kill(ready.hello["pid"], signal.SIGSTOP)
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert (lost.kind, lost.expected) == ("stuck", False)
    assert lost.reason == "stopped by a signal (SIGSTOP), its supervisor too"
    assert gone(ready.hello["pid"])


def test_a_slot_of_which_nothing_is_heard_is_told_of_before_it_is_ended(tmp_path: Path) -> None:
    """It waits for something and holds Python's lock meanwhile."""
    events: queue.SimpleQueue[SlotEvent] = queue.SimpleQueue()
    engine = LocalEngine(events.put, heartbeat=0.1, silence=60)
    engine.open(spec(tmp_path))
    until(events, SlotReady)
    engine.run(slot_id(), hostile(tmp_path, act="grip", size=1000))
    quiet = until(events, SlotQuiet)
    assert isinstance(quiet, SlotQuiet)
    assert quiet.ended_at == 60
    until(events, Done)
    engine.shutdown()


def test_a_slot_that_waits_for_ever_and_says_no_word_is_ended(
    tmp_path: Path, impatient: Opened
) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotReady)
    engine.run(slot_id(), hostile(tmp_path, act="grip", size=600_000))
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert lost.reason.startswith("silent for")


def test_a_slot_killed_while_its_supervisor_is_stopped_is_missed(
    tmp_path: Path, impatient: Opened
) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    ready = until(events, SlotReady)
    assert isinstance(ready, SlotReady)
    supervisor = supervisor_of(ready)
    supervisor.suspend()
    os.kill(ready.hello["pid"], signal.SIGKILL)
    assert isinstance(until(events, SlotLost), SlotLost)
    assert gone(supervisor.pid)


def test_a_slot_that_computes_is_not_taken_for_silent(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotReady)
    engine.run(slot_id(), hostile(tmp_path, samples=2, seconds=0.8))
    until(events, Done)


def test_nobody_is_blamed_where_all_slept_while_the_runner_listened(tmp_path: Path) -> None:
    """The machine sleeps after the runner heard of a sample, before it looks who is silent."""
    events: queue.SimpleQueue[SlotEvent] = queue.SimpleQueue()
    family: list[psutil.Process] = []

    def post(event: EngineEvent) -> None:
        if isinstance(event, Recorded) and family:
            for process in family:
                process.suspend()
            time.sleep(2)
            while family:
                family.pop().resume()
        events.put(event)

    engine = LocalEngine(post, heartbeat=0.2, silence=1.0)
    engine.open(spec(tmp_path))
    ready = until(events, SlotReady)
    assert isinstance(ready, SlotReady)
    family += [supervisor_of(ready), psutil.Process(ready.hello["pid"])]
    engine.run(slot_id(), hostile(tmp_path, samples=10, seconds=0.05))
    assert isinstance(until(events, (Done, SlotLost)), Done)
    engine.shutdown()


def test_an_interpreter_that_is_not_there_loses_its_slot(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path, python="/nowhere/python"))
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert "/nowhere/python" in (tmp_path / "slot.log").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
def test_what_its_supervisor_saw_end_is_not_looked_for_again(
    tmp_path: Path, impatient: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for = []
    monkeypatch.setattr(
        "benchfleet.engines.child.end_tree",
        lambda pid, slot: (looked_for.append(slot), end_tree(pid, slot)),
    )
    engine, events = impatient
    closed = [f"closed-{number}" for number in range(5)]
    for name in (*closed, "without a supervisor"):
        engine.open(spec(tmp_path, slot=name))
        ready = until(events, SlotReady)
        if name in closed:
            engine.close(slot_id(name))
        else:
            supervisor_of(ready).kill()
        until(events, SlotLost)
    assert slot_id("without a supervisor") in looked_for
    assert len(looked_for) <= len(closed)  # a supervisor that is slow to end is helped


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
    engine.run(slot_id(), hostile(tmp_path, samples=1))
    until(events, Done)


def test_samples_sent_before_a_kill_are_not_lost(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotReady)
    engine.run(slot_id(), hostile(tmp_path, samples=500, at=499, act="kill"))
    count = 0
    while not isinstance(event := events.get(timeout=60), SlotLost):
        count += isinstance(event, Recorded)
    assert count == 499


def supervisor_of(ready: SlotEvent) -> psutil.Process:
    assert isinstance(ready, SlotReady)
    return psutil.Process(ready.hello["pid"]).parent()  # type: ignore[return-value]


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


def test_a_killed_supervisor_takes_its_slot_along(tmp_path: Path, impatient: Opened) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    ready = until(events, SlotReady)
    assert isinstance(ready, SlotReady)
    engine.run(slot_id(), hostile(tmp_path, act="hang"))
    until(events, Recorded)
    supervisor_of(ready).kill()
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert not lost.expected
    assert gone(ready.hello["pid"])


def test_an_order_to_a_slot_that_just_died_harms_no_other(tmp_path: Path) -> None:
    events: queue.SimpleQueue[SlotEvent] = queue.SimpleQueue()
    busy, go_on = threading.Event(), threading.Event()

    def post(event: SlotEvent) -> None:
        events.put(event)
        if isinstance(event, SlotReady) and event.slot == slot_id("second"):
            busy.set()
            go_on.wait(60)

    engine = LocalEngine(post)
    engine.open(spec(tmp_path, slot="first"))
    first = until(events, SlotReady)
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


def test_an_error_over_one_slot_ends_that_slot_alone(tmp_path: Path) -> None:
    events: queue.SimpleQueue[SlotEvent] = queue.SimpleQueue()

    def post(event: SlotEvent) -> None:
        if isinstance(event, Progressed) and event.slot == slot_id("first"):
            raise RuntimeError("nobody foresaw this")
        events.put(event)

    engine = LocalEngine(post)
    for name in ("first", "second"):
        engine.open(spec(tmp_path, slot=name))
        until(events, SlotReady)
    engine.run(slot_id("first"), hostile(tmp_path))
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert "nobody foresaw this" in lost.reason
    assert "Traceback" in (tmp_path / "slot.log").read_text()
    engine.run(slot_id("second"), hostile(tmp_path, samples=1))
    assert until(events, Done).slot == slot_id("second")
    engine.shutdown()


def test_a_slot_without_file_descriptors_to_spare_is_lost_with_a_remedy(tmp_path: Path) -> None:
    program = """
import os, queue, resource, sys
from benchfleet.domain.resource import Device
from benchfleet.engines.base import SlotSpec
from benchfleet.engines.local import LocalEngine
events = queue.SimpleQueue()
engine = LocalEngine(events.put)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0) + 3, hard))
cpu = (Device(kind="cpu", index=0),)
engine.open(SlotSpec(slot=f"{os.getpid()}-1", devices=cpu, threads=1, log=f"{sys.argv[1]}/s.log"))
print(events.get(timeout=60).reason)
engine.shutdown()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "Too many open files" in ran.stdout, ran.stderr
    assert "ulimit -n" in ran.stdout


def test_a_system_without_pidfd_serves_as_well(
    tmp_path: Path, impatient: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refused, raising=False)
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotReady)
    engine.run(slot_id(), hostile(tmp_path, act="exit"))
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert lost.exit_code == 7


def test_a_launcher_that_fails_leaves_its_words_in_the_slots_log(
    tmp_path: Path, impatient: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchfleet.engines.local._LAUNCHER", "/nowhere/launch.py")
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotLost)
    assert "/nowhere/launch.py" in (tmp_path / "slot.log").read_text()


def test_the_log_of_a_slot_that_ended_well_is_kept_only_where_it_says_something(
    tmp_path: Path, impatient: Opened
) -> None:
    engine, events = impatient
    log = tmp_path / "slot.log"
    for said in ("", "a word"):
        engine.open(spec(tmp_path))
        until(events, SlotReady)
        assert log.exists()
        log.write_text(said)
        engine.close(slot_id())
        until(events, SlotLost)
        assert log.exists() is bool(said)


def test_a_slot_that_is_closed_does_what_was_left_to_its_end(
    tmp_path: Path, impatient: Opened
) -> None:
    engine, events = impatient
    engine.open(spec(tmp_path))
    until(events, SlotReady)
    engine.run(slot_id(), hostile(tmp_path, act="owe", shared=str(tmp_path / "debt")))
    until(events, Done)
    engine.close(slot_id())
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert (lost.expected, lost.exit_code) == (True, 0)
    assert (tmp_path / "debt").read_text() == "paid"


def test_another_interpreter_is_given_benchfleet_and_nothing_that_lies_beside_it(
    tmp_path: Path,
) -> None:
    """The layout of an installed benchfleet, whose neighbours are of another Python."""
    site, bare = tmp_path / "site", tmp_path / "bare"
    shutil.copytree(
        Path(benchfleet.__file__).parent,
        site / "benchfleet",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in ("torch", "transformers", "yaml", "psutil", "rich"):
        (site / f"{name}.py").write_text(f"raise SystemExit('the runner''s own {name}')")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    program = """
import sys
site, python, folder = sys.argv[1:]
import psutil, yaml  # the runner's, for what lies in the folder is spoilt
sys.path.insert(0, site)
import os, queue
import benchfleet
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Device
from benchfleet.engines.base import *
from benchfleet.engines.local import LocalEngine
assert benchfleet.__file__.startswith(site), benchfleet.__file__
events = queue.SimpleQueue()
engine = LocalEngine(events.put)
cpu, slot = (Device(kind="cpu", index=0),), f"{os.getpid()}-1"
engine.open(SlotSpec(slot=slot, devices=cpu, threads=1, log=f"{folder}/s.log", python=python))
ready = events.get(timeout=60)
assert isinstance(ready, SlotReady), ready
for number, adapter in enumerate(("mock", "transformers")):
    model = Model(name="m", adapter=adapter, source="m", digest="m", python=python)
    work = Workload(benchmark="mock_benchmark", version="1", params={"rows": 2})
    cell = Cell(model=model, config=Config(name="dense"), workload=work)
    engine.run(slot, Order(attempt=f"f/{number}", cell=cell, log=f"{folder}/{number}.log"))
    while not isinstance(event := events.get(timeout=60), (Done, Failed, SlotLost)):
        pass
    kind = event.failure.kind if isinstance(event, Failed) else event
    print(type(event).__name__, kind)
engine.shutdown()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(site), str(bare / "bin" / "python"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line.split()[:2] for line in ran.stdout.splitlines()]
    assert [line[0] for line in told] == ["Done", "Failed"], ran.stdout + ran.stderr
    assert told[1][1] == "missing_extra"


def test_shutting_down_while_slots_die_harms_nothing(tmp_path: Path) -> None:
    """Found in the wild: a slot could be found after its channel was closed."""
    for turn in range(15):
        events: queue.SimpleQueue[SlotEvent] = queue.SimpleQueue()
        engine = LocalEngine(events.put)
        for number in range(2):
            engine.open(spec(tmp_path, slot=f"turn{turn}-{number}"))
            until(events, SlotReady)
        for slot in engine.slots():
            engine.kill(slot)
            engine.close(slot)
        engine.shutdown()
        assert list(engine.slots()) == []


def test_an_engine_whose_thread_ended_before_it_was_woken_shuts_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = LocalEngine(lambda event: None, heartbeat=0.1)
    wake = engine._serving.wake

    def late() -> None:
        engine._serving._thread.join()
        wake()

    monkeypatch.setattr(engine._serving, "wake", late)
    engine.shutdown()
    assert engine.slots() == []
