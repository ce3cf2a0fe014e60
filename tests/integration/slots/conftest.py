"""A local engine that waits for nobody long, slots for it, and orders that misbehave."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    EngineEvent,
    SlotEvent,
    SlotReady,
)
from benchfleet.engines.base import SlotSpec as Spec
from benchfleet.engines.local import LocalEngine
from benchfleet.testing.engine_fixture import slot_id


def spec(folder: Path, *, slot: str = "1", python: str = "") -> Spec:
    cpu = (Device(kind="cpu", index=0),)
    return Spec(
        slot=slot_id(slot), devices=cpu, threads=1, log=str(folder / "slot.log"), python=python
    )


def hostile(folder: Path, **params: object) -> AttemptRequest:
    cell = Cell(
        model=Model(name="mock", adapter="mock", source="", digest="mock"),
        config=Config(name="dense"),
        workload=Workload(benchmark="_hostile", version="1", params=params),
    )
    return AttemptRequest(attempt=f"{'0' * 64}/1-1", cell=cell, log=str(folder / "log.txt"))


Heard = TypeVar("Heard", bound=SlotEvent)
Opened = tuple[LocalEngine, "queue.SimpleQueue[EngineEvent]"]


@pytest.fixture
def impatient() -> Iterator[Opened]:
    events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
    engine = LocalEngine(events.put, heartbeat=0.05, silence=0.5)
    yield engine, events
    engine.shutdown()


def until(
    events: queue.SimpleQueue[EngineEvent], kind: type[Heard] | tuple[type[Heard], ...]
) -> Heard:
    while not isinstance(event := events.get(timeout=60), kind):
        continue
    return event


def started(at: Opened, folder: Path, **named: str) -> SlotReady:
    """A slot that is ready."""
    engine, events = at
    engine.open(spec(folder, **named))
    return until(events, SlotReady)


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


def supervisor_of(ready: SlotReady) -> psutil.Process:
    return psutil.Process(ready.hello["pid"]).parent()  # type: ignore[return-value]
