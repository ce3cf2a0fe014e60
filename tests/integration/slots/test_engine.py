"""An engine of real slots whose processes, descriptors or threads fail it, and their logs."""

from __future__ import annotations

import errno
import os
import queue
import subprocess
import sys
from pathlib import Path

import pytest

from benchfleet.engines.base import (
    Done,
    EngineEvent,
    Progressed,
    SlotLost,
)
from benchfleet.engines.local import LocalEngine
from benchfleet.testing.engine_fixture import slot_id

from .conftest import Opened, hostile, started, until


def test_an_error_over_one_slot_ends_that_slot_alone(tmp_path: Path) -> None:
    events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()

    def post(event: EngineEvent) -> None:
        if isinstance(event, Progressed) and event.slot == slot_id("first"):
            raise RuntimeError("nobody foresaw this")
        events.put(event)

    engine = LocalEngine(post)
    for name in ("first", "second"):
        started((engine, events), tmp_path, slot=name)
    engine.run(slot_id("first"), hostile(tmp_path))
    lost = until(events, SlotLost)
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
    started(impatient, tmp_path)
    engine.run(slot_id(), hostile(tmp_path, act="exit"))
    lost = until(events, SlotLost)
    assert lost.exit_code == 7


def test_the_log_of_a_slot_that_ended_well_is_kept_only_where_it_says_something(
    tmp_path: Path, impatient: Opened
) -> None:
    engine, events = impatient
    log = tmp_path / "slot.log"
    for output in ("", "a word"):
        started(impatient, tmp_path)
        assert log.exists()
        log.write_text(output)
        engine.close(slot_id())
        until(events, SlotLost)
        assert log.exists() is bool(output)


def test_shutting_down_while_slots_die_harms_nothing(tmp_path: Path) -> None:
    """Found in the wild: a slot could be found after its channel was closed."""
    for turn in range(15):
        events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
        engine = LocalEngine(events.put)
        for number in range(2):
            started((engine, events), tmp_path, slot=f"turn{turn}-{number}")
        for slot in engine.slots():
            engine.kill(slot)
            engine.close(slot)
        engine.shutdown()
        assert list(engine.slots()) == []
