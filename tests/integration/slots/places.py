"""Places where slots run: here, or behind an sshd."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.limits import Limits
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    Engine,
    EngineEvent,
    HostReady,
    SlotLost,
    SlotSpec,
)
from benchfleet.testing.engine_fixture import slot_id

SLOT = slot_id()


class Place:
    """Somewhere that slots run: here, or behind an sshd."""

    def __init__(self, make: Callable[..., Engine], folder: Path, host: str) -> None:
        self.events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
        self.folder, self.host = folder, host
        self.engine = make(self.events.put)
        if host:
            self.until(HostReady)

    def open(self, *, gpus: tuple[int, ...] = (), threads: int = 1) -> None:
        devices = tuple(Device(kind="gpu", index=index, host=self.host) for index in gpus)
        self.engine.open(
            SlotSpec(
                slot=SLOT,
                devices=devices or (Device(kind="cpu", index=0, host=self.host),),
                threads=threads,
                log=str(self.folder / "slot.log"),
            )
        )

    def run(self, benchmark: str, *, ram: int | None = None, **params: Any) -> None:
        cell = Cell(
            model=Model(name="mock", adapter="mock", source="", digest="mock"),
            config=Config(name="dense"),
            workload=Workload(
                benchmark=benchmark,
                version="1",
                params=params,
                outside={"folder": str(self.folder)} if benchmark != "_hostile" else {},
            ),
            limits=Limits(ram=ram),
        )
        log = str(self.folder / "log.txt")
        self.engine.run(SLOT, AttemptRequest(attempt=f"{'0' * 64}/1-1", cell=cell, log=log))

    def until(self, kind: type[Any] | tuple[type[Any], ...]) -> Any:
        while not isinstance(event := self.events.get(timeout=60), kind):
            if isinstance(event, SlotLost):
                raise AssertionError(f"lost while waiting: {event.reason}")
        return event

    def log(self) -> str:
        return (self.folder / "log.txt").read_text()
