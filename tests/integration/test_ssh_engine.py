"""What can go wrong between an engine and its hosts, and is told all the same."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    EngineEvent,
    Failed,
    HostLost,
    HostReady,
    Order,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
)
from benchfleet.engines.openssh import connections
from benchfleet.engines.ssh import SshEngine
from benchfleet.machines.shares import examined
from benchfleet.testing.samples import sample_cell
from sshd import Sshd

Events = queue.SimpleQueue[EngineEvent]
SLOT = SlotId("ssh-engine-slot")


@pytest.fixture
def events() -> Events:
    return queue.SimpleQueue()


@pytest.fixture
def engine(sshd: Sshd, events: Events, tmp_path: Path) -> Iterator[SshEngine]:
    with connections(tmp_path / "known" / "known_hosts") as ssh:
        hosts = [sshd.host(folder=str(tmp_path / "far"))]
        engine = SshEngine(events.put, hosts=hosts, ssh=ssh, examine=examined)
        yield engine
        engine.shutdown()


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
    sshd: Sshd, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with connections(tmp_path / "known" / "known_hosts") as ssh:
        engine = SshEngine(events.put, hosts=[sshd.host()], ssh=ssh, examine=examined)
        lost = until(events, HostLost)
        engine.shutdown()
    assert isinstance(lost, HostLost)
    assert "ssh cannot be started here" in lost.reason


def test_a_model_that_cannot_even_begin_to_be_sent_is_a_failure(
    engine: SshEngine, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(engine, events, tmp_path)
    model = tmp_path / "model"
    model.mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))  # ssh is gone
    cell = sample_cell(source=str(model), digest="a digest")
    engine.run(SLOT, Order(attempt="f/1-1", cell=cell, log=str(tmp_path / "1.log")))
    failed = until(events, Failed)
    assert isinstance(failed, Failed)
    assert (failed.failure.stage, failed.failure.kind) == ("provision", "error")


@pytest.mark.parametrize("late", [0.0, 0.005, 0.02, 0.05])
def test_a_slot_lost_while_it_is_handed_an_order_is_told_as_lost(
    engine: SshEngine, events: Events, tmp_path: Path, late: float
) -> None:
    opened(engine, events, tmp_path)
    (client,) = [
        child
        for child in psutil.Process().children()
        if child.name() == "ssh" and "slot.launch" in " ".join(child.cmdline())
    ]
    earlier = b"{}\n" * (20 * 2**20)
    order = Order(
        attempt="f/1-1", cell=sample_cell(), log=str(tmp_path / "1.log"), recorded=earlier
    )
    time.sleep(late)
    client.kill()
    engine.run(SLOT, order)
    lost = until(events, SlotLost)
    assert isinstance(lost, SlotLost)
    assert lost.host_lost
