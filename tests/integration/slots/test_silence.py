"""Slots that send nothing, and slots that receive nothing."""

from __future__ import annotations

import os
import queue
import signal
import time
from pathlib import Path

import psutil

from benchfleet.engines.base import (
    Done,
    EngineEvent,
    Recorded,
    SlotLost,
    SlotQuiet,
)
from benchfleet.engines.local import LocalEngine
from benchfleet.testing.engine_fixture import slot_id

from .conftest import Opened, gone, hostile, started, supervisor_of, until


def test_a_slot_that_hears_nothing_ends_itself(tmp_path: Path) -> None:
    events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
    engine = LocalEngine(events.put, heartbeat=3600, orphan_timeout=0.3)
    started((engine, events), tmp_path)
    until(events, SlotLost)
    engine.shutdown()
    assert "received nothing for 0.3 s" in (tmp_path / "slot.log").read_text()


def test_a_silent_slot_is_reported_before_it_is_ended(tmp_path: Path) -> None:
    """It waits for something and holds Python's lock meanwhile."""
    events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
    engine = LocalEngine(events.put, heartbeat=0.1, silence=60)
    started((engine, events), tmp_path)
    engine.run(slot_id(), hostile(tmp_path, act="grip", size=1000))
    quiet = until(events, SlotQuiet)
    assert quiet.ended_at == 60
    until(events, Done)
    engine.shutdown()


def test_a_slot_that_waits_for_ever_and_says_no_word_is_ended(
    tmp_path: Path, impatient: Opened
) -> None:
    engine, events = impatient
    started(impatient, tmp_path)
    engine.run(slot_id(), hostile(tmp_path, act="grip", size=600_000))
    lost = until(events, SlotLost)
    assert lost.reason.startswith("silent for")


def test_a_slot_killed_while_its_supervisor_is_stopped_is_missed(
    tmp_path: Path, impatient: Opened
) -> None:
    _, events = impatient
    ready = started(impatient, tmp_path)
    supervisor = supervisor_of(ready)
    supervisor.suspend()
    os.kill(ready.hello["pid"], signal.SIGKILL)
    assert isinstance(until(events, SlotLost), SlotLost)
    assert gone(supervisor.pid)


def test_nobody_is_blamed_where_all_slept_while_the_runner_listened(tmp_path: Path) -> None:
    """The machine sleeps after the runner heard of a sample, before it looks who is silent."""
    events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
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
    ready = started((engine, events), tmp_path)
    family += [supervisor_of(ready), psutil.Process(ready.hello["pid"])]
    engine.run(slot_id(), hostile(tmp_path, samples=10, seconds=0.05))
    assert isinstance(until(events, (Done, SlotLost)), Done)
    engine.shutdown()
