"""Failures between an engine and its hosts, and how they are reported."""

from __future__ import annotations

import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

import benchfleet
from benchfleet.domain.cell import Workload
from benchfleet.domain.host import Host
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    EngineEvent,
    Failed,
    HostLost,
    HostReady,
    SlotLost,
    SlotReady,
    SlotSpec,
)
from benchfleet.engines.openssh import connections
from benchfleet.engines.ssh import SshEngine
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.testing.engine_fixture import slot_id
from benchfleet.testing.sample_cells import sample_cell
from sshd import Sshd

Events = queue.SimpleQueue[EngineEvent]
Start = Callable[..., SshEngine]
SLOT = slot_id()
_IGNORED = shutil.ignore_patterns("__pycache__")


@pytest.fixture
def events() -> Events:
    return queue.SimpleQueue()


@pytest.fixture
def start(events: Events, tmp_path: Path) -> Iterator[Start]:
    """Starts the engine of a host, and ends it with the test."""
    with connections(tmp_path / "known" / "known_hosts") as ssh, ExitStack() as ending:

        def started(host: Host, **more: Any) -> SshEngine:
            engine = SshEngine(
                events.put, hosts=[host], ssh=ssh, **{"examine": capacity_from_facts, **more}
            )
            ending.callback(engine.shutdown)
            return engine

        yield started


@pytest.fixture
def engine(sshd: Sshd, start: Start, tmp_path: Path) -> SshEngine:
    return start(sshd.host(folder=str(tmp_path / "far")))


def until(events: Events, kind: type[EngineEvent]) -> EngineEvent:
    while not isinstance(event := events.get(timeout=60), kind):
        continue
    return event


def opened(engine: SshEngine, events: Events, folder: Path) -> None:
    until(events, HostReady)
    device = Device(kind="cpu", index=0, host="lab1")
    engine.open(SlotSpec(slot=SLOT, devices=(device,), threads=1, log=str(folder / "slot.log")))
    until(events, SlotReady)


def test_a_machine_without_ssh_says_so_of_every_host(
    sshd: Sshd, start: Start, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    start(sshd.host())
    lost = until(events, HostLost)
    assert isinstance(lost, HostLost)
    assert "ssh not found on this machine" in lost.reason


def test_a_model_that_cannot_even_begin_to_be_sent_is_a_failure(
    engine: SshEngine, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(engine, events, tmp_path)
    model = tmp_path / "model"
    model.mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))  # ssh is gone
    cell = sample_cell(source=str(model), digest="a digest")
    engine.run(SLOT, AttemptRequest(attempt="f/1-1", cell=cell, log=str(tmp_path / "1.log")))
    failed = until(events, Failed)
    assert isinstance(failed, Failed)
    assert (failed.failure.stage, failed.failure.kind) == ("provision", "error")


@pytest.mark.parametrize("late", [0.0, 0.005, 0.02, 0.05])
def test_a_slot_lost_while_a_request_is_sent_is_reported_as_lost(
    engine: SshEngine, events: Events, tmp_path: Path, late: float
) -> None:
    opened(engine, events, tmp_path)
    (client,) = [
        child
        for child in psutil.Process().children()
        if child.name() == "ssh" and "slot.launch" in " ".join(child.cmdline())
    ]
    earlier = b"{}\n" * (20 * 2**20)
    request = AttemptRequest(
        attempt="f/1-1", cell=sample_cell(), log=str(tmp_path / "1.log"), recorded=earlier
    )
    time.sleep(late)
    client.kill()
    engine.run(SLOT, request)
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert lost.host_lost


def test_a_slot_that_hears_nothing_any_more_ends_itself_and_its_tree(
    own_sshd: Sshd, start: Start, events: Events, tmp_path: Path
) -> None:
    engine = start(own_sshd.host(folder=str(tmp_path / "far")), heartbeat=0.5, orphan_timeout=3)
    opened(engine, events, tmp_path)
    params = {"act": "litter", "samples": 10_000, "seconds": 0.05}
    workload = Workload(benchmark="_hostile", version="1", params=params)
    cell = replace(sample_cell(), workload=workload)
    engine.run(SLOT, AttemptRequest(attempt="f/1-1", cell=cell, log=str(tmp_path / "1.log")))
    # Supervisor, slot, and its child in a session of its own.
    while len(own_sshd.sessions()) < 3:
        time.sleep(0.05)
    own_sshd.freeze()
    try:
        deadline = time.monotonic() + 60
        while left := own_sshd.sessions():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
    finally:
        own_sshd.thaw()


def test_another_version_on_a_host_is_refused_before_a_slot_and_by_the_slots_hello(
    sshd: Sshd, start: Start, events: Events, tmp_path: Path
) -> None:
    package = Path(benchfleet.__file__).parent
    shutil.copytree(package, tmp_path / "other" / "benchfleet", ignore=_IGNORED)
    init = tmp_path / "other" / "benchfleet" / "__init__.py"
    init.write_text(init.read_text().replace(benchfleet.__version__, "0.0.9"))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/other exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    host = sshd.host(python=str(python), folder=str(tmp_path / "far"))

    def unasked(host: Host, output: str) -> HostReady:
        device = Device(kind="cpu", index=0, host=host.name)
        return HostReady(host=host.name, devices=(device,), slots=1, threads=1)

    start(host)
    refused = until(events, HostLost)
    engine = start(host, examine=unasked)
    until(events, HostReady)
    device = Device(kind="cpu", index=0, host="lab1")
    engine.open(SlotSpec(slot=SLOT, devices=(device,), threads=1, log=str(tmp_path / "slot.log")))
    lost = until(events, SlotLost)
    assert isinstance(refused, HostLost)
    assert refused.hopeless
    assert isinstance(lost, SlotLost)
    for output in (refused.reason, lost.reason):
        assert "benchfleet 0.0.9, this" in output
        assert benchfleet.__version__ in output


def test_a_host_behind_another_is_reached_through_it(
    own_sshd: Sshd, agent: None, start: Start, events: Events, tmp_path: Path
) -> None:
    user, port = own_sshd.host().user, own_sshd.port
    jump = f"{user}@127.0.0.1:{port}"
    behind = own_sshd.host(jump=f"{jump},{jump}", folder=str(tmp_path / "far"))
    opened(start(behind), events, tmp_path)
    assert own_sshd.log().count("Accepted publickey") == 3  # two on the way, and the host itself


@pytest.fixture
def agent(own_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The key of our sshd in an agent: a jump host gets no identity, as with ssh's own -J."""
    with tempfile.TemporaryDirectory(prefix="bf-agent-") as folder:
        socket = Path(folder, "socket")
        running = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
        with running:
            while not socket.exists():
                time.sleep(0.01)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
            subprocess.run(["ssh-add", "-q", own_sshd.identity], check=True)
            yield
            running.terminate()


def test_no_secret_of_this_machine_crosses(
    sshd: Sshd, start: Start, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "hf_aVerySecretTokenOfThisMachine"  # noqa: S105 - made up
    monkeypatch.setenv("HF_TOKEN", secret)
    opened(start(sshd.host()), events, tmp_path)
    there = sshd.sessions()
    seen = [(p.name(), " ".join(p.cmdline()), str(p.environ())) for p in there]
    assert len(seen) >= 2
    assert not [name for name, words, environment in seen if secret in words + environment]
