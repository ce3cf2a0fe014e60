"""A trial load of the real tiny model, in a real slot: one that is whole, and one that is cut."""

from __future__ import annotations

import queue
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    Done,
    EngineEvent,
    Failed,
    HostReady,
    SlotLost,
    SlotReady,
    SlotSpec,
)
from benchfleet.engines.local import LocalEngine
from benchfleet.engines.openssh import connections
from benchfleet.engines.preload_check import PreloadCheckEngine
from benchfleet.engines.ssh import SshEngine
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.models.transformers import TransformersAdapter
from benchfleet.testing.engine_fixture import slot_id
from packages import require
from sshd import Sshd

require("torch")
TINY = Path(__file__).parents[2] / "examples" / "recall" / "model"
SLOT = slot_id()


def tiny(model: Path) -> Cell:
    """A cell of the model in this folder."""
    return Cell(
        model=Model(
            name="tiny",
            adapter="transformers",
            source=str(model),
            digest=TransformersAdapter.digest(str(model)),
            model_kwargs={"dtype": "float32"},
        ),
        config=Config(name="dense"),
        workload=Workload(benchmark="_hostile", version="1", params={"samples": 1}),
    )


@dataclass
class Tried:
    """A real slot that tries the model of a folder first."""

    cell: Cell
    folder: Path
    events: queue.SimpleQueue[EngineEvent] = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        self.engine = PreloadCheckEngine(self.events.put, [self.cell])
        self.engine.inside = LocalEngine(self.engine.handle)
        cpu = (Device(kind="cpu", index=0),)
        log = str(self.folder / "slot.log")
        self.engine.open(SlotSpec(slot=SLOT, devices=cpu, threads=1, log=log))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TINY, tmp_path / "model"))


@pytest.fixture
def tried(model: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tried]:
    if header := getattr(request, "param", None):
        with open(model / "model.safetensors", "r+b") as weights:
            weights.seek(8)
            weights.write(header)
    found = Tried(tiny(model), tmp_path)
    yield found
    found.engine.shutdown()


def test_a_model_that_runs_stays_loaded_for_the_first_cell(tried: Tried) -> None:
    ready = tried.events.get(timeout=120)
    assert isinstance(ready, SlotReady)
    assert ready.loaded == tried.cell.model.load_key
    shutil.rmtree(tried.cell.model.source)  # it can be loaded no second time
    request = AttemptRequest(attempt="f/1-1", cell=tried.cell, log=str(tried.folder / "log.txt"))
    tried.engine.run(SLOT, request)
    while not isinstance(event := tried.events.get(timeout=120), (Done, Failed, SlotLost)):
        continue
    assert isinstance(event, Done)
    assert event.attempt == "f/1-1"


@pytest.mark.parametrize("tried", [b"no JSON"], indirect=True)
def test_a_model_that_does_not_load_is_reported_before_any_cell(tried: Tried) -> None:
    lost = tried.events.get(timeout=120)
    assert isinstance(lost, SlotLost)
    assert not lost.expected
    assert "model tiny does not run there (load: " in lost.trial
    assert "Safetensor" in lost.trial
    assert "Safetensor" in (tried.folder / "slot.log").read_text()


def test_a_host_is_sent_the_model_before_it_tries_it(
    sshd: Sshd, model: Path, tmp_path: Path
) -> None:
    events: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
    cell = tiny(model)
    hosts = [replace(sshd.host("lab1"), cpu_slots=1)]
    with connections(sshd.folder / "known_hosts") as ssh:
        engine = PreloadCheckEngine(events.put, [cell])
        engine.inside = SshEngine(engine.handle, hosts=hosts, ssh=ssh, examine=capacity_from_facts)
        try:
            assert isinstance(events.get(timeout=120), HostReady)
            far = (Device(kind="cpu", index=0, host="lab1"),)
            log = str(tmp_path / "slot.log")
            engine.open(SlotSpec(slot=SLOT, devices=far, threads=1, log=log))
            ready = events.get(timeout=120)
            assert isinstance(ready, SlotReady), ready
            assert ready.loaded == cell.model.load_key
        finally:
            engine.shutdown()
