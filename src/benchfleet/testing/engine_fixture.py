"""An engine under test, and a short way to give it work."""

from __future__ import annotations

import os
import queue
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    Engine,
    EngineEvent,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
)

EVENT_TIMEOUT_S = 60.0  # seconds: a bound on the wait for an event that must come, never a measure
_RUNNER = os.urandom(4).hex()


def slot_id(name: str | int = 1) -> SlotId:
    """A slot's name that no other process gives: an engine ends whatever bears the name of its
    slot, and tests may run side by side."""
    return SlotId(f"{_RUNNER}-{name}")


Events = queue.SimpleQueue[EngineEvent]


class Bench:
    """An engine with the events it posted, and a short way to give it work."""

    def __init__(
        self,
        engine: Engine,
        events: Events,
        folder: Path,
        *,
        host: str = "",
    ) -> None:
        self.engine, self.events, self.folder, self.host = engine, events, folder, host
        self.attempts = 0

    def spec(self, number: int = 1, *, gpus: tuple[int, ...] = (), log: str = "") -> SlotSpec:
        cpu = Device(kind="cpu", index=0, host=self.host)
        devices = tuple(Device(kind="gpu", index=index, host=self.host) for index in gpus)
        log = log or str(self.folder / f"slot-{number}.log")
        slot = slot_id(number)
        return SlotSpec(slot=slot, devices=devices or (cpu,), threads=1, log=log)

    def open(self, number: int = 1, *, gpus: tuple[int, ...] = ()) -> SlotReady:
        self.engine.open(self.spec(number, gpus=gpus))
        return self.until(SlotReady)[-1]  # type: ignore[return-value]

    def run(
        self, number: int = 1, *, recorded: bytes = b"", batch_size: int = 0, **params: Any
    ) -> str:
        """Start the misbehaving benchmark with these parameters; the attempt's name."""
        self.attempts += 1
        attempt = f"{'f' * 64}/{self.attempts}-{self.attempts}"
        cell = Cell(
            model=Model(name="mock", adapter="mock", source="", digest="mock"),
            config=Config(name="dense"),
            workload=Workload(benchmark="_hostile", version="1", params=params),
        )
        log = str(self.folder / f"{self.attempts}.log")
        request = AttemptRequest(
            attempt=attempt, cell=cell, log=log, recorded=recorded, batch_size=batch_size
        )
        self.engine.run(slot_id(number), request)
        return attempt

    def until(self, *kinds: type[EngineEvent]) -> list[EngineEvent]:
        """All events up to and with the first of these kinds."""
        seen: list[EngineEvent] = []
        while True:
            event = self.events.get(timeout=EVENT_TIMEOUT_S)
            seen.append(event)
            if isinstance(event, kinds):
                return seen
            if isinstance(event, SlotLost) and not event.expected:
                raise AssertionError(f"the slot was lost while waiting: {event.reason}")

    def log(self, number: int = 1) -> bytes:
        return (self.folder / f"{number}.log").read_bytes()
