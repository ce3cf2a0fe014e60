"""Limits that hold, and GPUs that are looked at, with real slots here and behind a real sshd."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.gpu import GpuState
from benchfleet.domain.limits import Limits
from benchfleet.domain.resource import Device, GpuChecks
from benchfleet.engines.base import (
    AttemptRequest,
    Done,
    Engine,
    EngineEvent,
    Failed,
    HostReady,
    Recorded,
    SlotLost,
    SlotQuiet,
    SlotReady,
    SlotSpec,
)
from benchfleet.engines.local import LocalEngine
from benchfleet.engines.openssh import connections
from benchfleet.engines.ssh import SshEngine
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.machines.nvml import RECORDING, open_nvml
from benchfleet.machines.recorded_gpus import RecordedGpus
from benchfleet.testing.engine_fixture import slot_id
from sshd import Sshd

from .conftest import gone

SLOT = slot_id()
HOG = """
import os, subprocess, sys, time
size = int(sys.argv[1])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[2], "w") as file:
            file.write(str(os.getpid()))
        held = bytearray(size)
        time.sleep(600)
    os._exit(0)
print("the hog starts", flush=True)
time.sleep(600)
"""
WELL = {"index": 0, "name": "H100", "uuid": "GPU-0", "memory": 80 * 10**9, "free": 79 * 10**9}
IN_USE = {**WELL, "processes": [{"pid": 7, "name": "python3", "user": "ada"}]}


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


@pytest.fixture(params=["here", "there"])
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Makes a place with slots that show life every second, on either side of an ssh."""
    places: list[Place] = []
    with ExitStack() as stack:

        def make(**options: Any) -> Place:
            if request.param == "here":
                place = Place(
                    lambda post: LocalEngine(post, heartbeat=0.5, **options), tmp_path, ""
                )
            else:
                sshd: Sshd = request.getfixturevalue("sshd")
                ssh = stack.enter_context(connections(sshd.folder / "known_hosts"))
                hosts = [replace(sshd.host("lab1"), gpus=None, cpu_slots=1)]
                place = Place(
                    lambda post: SshEngine(
                        post,
                        hosts=hosts,
                        ssh=ssh,
                        examine=capacity_from_facts,
                        heartbeat=0.5,
                        **options,
                    ),
                    tmp_path,
                    "lab1",
                )
            places.append(place)
            return place

        yield make
        for place in places:
            place.engine.shutdown()


def test_a_tree_over_its_limit_of_ram_is_ended_as_out_of_memory(
    make_place: Callable[..., Place],
) -> None:
    place = make_place()
    place.open()
    place.until(SlotReady)
    holds = place.folder / "holds"
    argv = [sys.executable, "-c", HOG, str(400 * 10**6), str(holds)]
    place.run("command", ram=300 * 10**6, name="hog", argv=argv)
    lost = place.until(SlotLost)
    assert (lost.kind, lost.expected) == ("oom", False)
    assert "over its limit of 300 MB; most of it python" in lost.reason
    assert "the hog starts" in place.log()
    assert gone(int(holds.read_text()))


def test_a_limit_of_ram_ends_with_its_cell(make_place: Callable[..., Place]) -> None:
    place = make_place()
    place.open()
    place.until(SlotReady)
    place.run("_hostile", ram=10**12, samples=2)
    place.until(Done)
    place.run("_hostile", ram=None, samples=4, seconds=0.6)
    place.until(Done)


def test_a_stopped_slot_is_ended_by_its_supervisor(make_place: Callable[..., Place]) -> None:
    place = make_place()
    place.open()
    pid = place.until(SlotReady).hello["pid"]
    place.run("_hostile", act="hang")
    place.until(Recorded)
    os.kill(pid, signal.SIGSTOP)
    lost = place.until(SlotLost)
    assert (lost.kind, lost.expected) == ("stuck", False)
    assert "stopped by a signal (SIGSTOP) for" in lost.reason
    assert gone(pid)


def test_a_slot_that_computes_is_not_silent_while_a_thread_holds_python_s_lock(
    make_place: Callable[..., Place],
) -> None:
    place = make_place(silence=1.0)
    place.open()
    place.until(SlotReady)
    place.run("_hostile", act="grind", size=10**8)
    assert isinstance(place.until((SlotQuiet, Done)), Done)


def test_children_of_a_slot_have_its_share_of_threads(make_place: Callable[..., Place]) -> None:
    place = make_place()
    place.open(threads=1)
    place.until(SlotReady)
    program = (
        "import os, torch; print(os.environ['OMP_NUM_THREADS'], os.environ['MKL_NUM_THREADS'], "
        "torch.get_num_threads())"
    )
    place.run("command", name="threads", argv=[sys.executable, "-c", program])
    place.until((Done, Failed))
    assert "1 1 1" in place.log()


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes what NVML says in this test."""
    file = tmp_path / "nvml.json"
    monkeypatch.setenv(RECORDING, str(file))

    def write(*gpus: dict[str, Any], **more: Any) -> None:
        file.write_text(json.dumps({"driver": "550.54.15", "gpus": gpus, **more}))

    return write


def test_a_recording_answers_like_the_driver(recording: Callable[..., None]) -> None:
    theirs = {"pid": 7, "name": "python3", "user": "ada"}
    recording({**WELL, "processes": [theirs]}, {"index": 1, "lost": "GPU is lost"})
    with open_nvml() as nvml:
        assert isinstance(nvml, RecordedGpus)
        assert nvml.driver() == "550.54.15"
        used, lost = nvml.gpus()
    assert str(used.processes[0]) == "ada: python3 (7)"
    assert lost == GpuState(index=1, lost="GPU is lost")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    places: list[Place] = []

    def make(**checks: bool) -> Place:
        options = {"checks": GpuChecks(**checks), "named": True}
        places.append(Place(lambda post: LocalEngine(post, **options), tmp_path, ""))  # type: ignore[arg-type]
        return places[-1]

    yield make
    for place in places:
        place.engine.shutdown()


def test_a_slot_on_a_gpu_that_is_well_starts(
    local: Callable[..., Place], recording: Callable[..., None]
) -> None:
    recording(WELL)
    place = local()
    place.open(gpus=(0,))
    assert place.until(SlotReady).hello["gpus"] == "0"


@pytest.mark.parametrize(
    ("gpu", "output", "busy"),
    [
        ({"index": 0, "lost": "GPU is lost"}, "does not answer (NVML: GPU is lost)", False),
        ({**WELL, "uncorrected": 4}, "4 uncorrectable ECC errors", False),
        (IN_USE, "gpu:0 is in use: ada: python3 (7)", True),
        ({**WELL, "free": 10**9}, "79.0 GB of 80.0 GB taken", True),
    ],
)
def test_a_slot_on_a_gpu_that_is_unfit_ends_with_the_reason(
    local: Callable[..., Place],
    recording: Callable[..., None],
    gpu: dict[str, Any],
    output: str,
    busy: bool,
) -> None:
    recording(gpu)
    place = local()
    place.open(gpus=(0,))
    lost = place.until(SlotLost)
    assert output in lost.reason
    assert (lost.unfit, lost.busy, lost.expected) == ((0,), busy, False)


def test_a_gpu_that_others_use_is_shared_where_that_was_asked_for(
    local: Callable[..., Place], recording: Callable[..., None]
) -> None:
    recording(IN_USE)
    place = local(share=True)
    place.open(gpus=(0,))
    place.until(SlotReady)


def test_a_trial_that_fails_is_the_reason(
    local: Callable[..., Place], recording: Callable[..., None]
) -> None:
    """There may be no GPU at all behind the recording, or one that passes."""
    import torch

    recording(WELL)
    place = local(trial=True)
    place.open(gpus=(0,))
    if torch.cuda.is_available():
        place.until(SlotReady)
    else:
        lost = place.until(SlotLost)
        assert "its trial failed: torch sees no GPU" in lost.reason
        assert not lost.busy
