"""Slots on a real Ray cluster of several nodes that come, leave, freeze and die."""

from __future__ import annotations

import contextlib
import queue
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchfleet.domain.host import Host
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    EngineEvent,
    HostAwaited,
    HostLost,
    HostReady,
    Recorded,
    SlotLost,
    SlotSpec,
)
from benchfleet.engines.ray_cluster import RayCluster
from benchfleet.engines.ray_engine import RayEngine
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.testing.engine_fixture import EVENT_TIMEOUT_S, Bench, Events, slot_id
from ray_clusters import RayNodes, ray_nodes

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Ray has several nodes on Linux"),
    # Nodes of Ray's own test cluster leave files open.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """A cluster whose head runs nothing."""
    with ray_nodes(cpus=0) as made:
        cluster = RayCluster(made.address)
        yield made
        cluster.disconnect()


@pytest.fixture
def engine(nodes: RayNodes) -> Iterator[tuple[RayEngine, Events]]:
    events = Events()
    like = Host(name="cluster")
    made = RayEngine(
        events.put, cluster=RayCluster(), like=like, examine=capacity_from_facts, heartbeat=1.0
    )
    yield made, events
    made.shutdown()


class Joined:
    """A node with one slot that runs a cell."""

    def __init__(self, nodes: RayNodes, engine: RayEngine, events: Events, folder: Path) -> None:
        self.node: Any = nodes.add(cpus=2)
        self.nodes, self.events = nodes, events
        ready = wait_for(events, HostReady)
        assert isinstance(ready, HostReady)
        self.host = ready.host
        self.bench = Bench(engine, events, folder, host=ready.host)
        self.slot = psutil.Process(self.bench.open().hello["pid"])
        self.bench.run(act="litter", samples=10_000, seconds=0.05, at=1)
        for _ in range(3):
            wait_for(events, Recorded)
        self.processes = [self.slot, *self.slot.children(recursive=True)]
        assert len(self.processes) > 1  # one is in a session of its own

    def leave(self, *, in_order: bool = False) -> None:
        self.nodes.remove(self.node, in_order=in_order)

    def ended(self) -> bool:
        return psutil.wait_procs(self.processes, timeout=EVENT_TIMEOUT_S)[1] == []


@pytest.fixture
def joined(nodes: RayNodes, engine: tuple[RayEngine, Events], tmp_path: Path) -> Iterator[Joined]:
    made = Joined(nodes, *engine, tmp_path)
    yield made
    with contextlib.suppress(Exception):
        made.leave(in_order=True)


def wait_for(events: Events, kind: type[EngineEvent]) -> EngineEvent:
    until = time.monotonic() + EVENT_TIMEOUT_S
    while time.monotonic() < until:
        with contextlib.suppress(queue.Empty):
            if isinstance(event := events.get(timeout=1), kind):
                return event
    raise AssertionError(f"no {kind.__name__} came")


def lost_slot(events: Events) -> SlotLost:
    event = wait_for(events, SlotLost)
    assert isinstance(event, SlotLost)
    return event


@pytest.mark.parametrize("in_order", [True, False])
def test_a_node_that_leaves_in_mid_cell_loses_its_host_and_all_processes_end(
    joined: Joined, in_order: bool
) -> None:
    joined.leave(in_order=in_order)
    lost = lost_slot(joined.events)
    assert (lost.host_lost, lost.expected) == (True, False)
    assert joined.ended()
    host = wait_for(joined.events, HostLost)
    assert isinstance(host, HostLost)
    assert host.host == joined.host


def test_without_any_node_others_are_awaited(engine: tuple[RayEngine, Events]) -> None:
    awaited = wait_for(engine[1], HostAwaited)
    assert isinstance(awaited, HostAwaited)
    assert awaited.host == "cluster"
    assert "cluster" in engine[0].hosts()


def test_a_killed_actor_is_a_lost_host_until_the_node_answers(joined: Joined) -> None:
    supervisor = joined.slot.parent()
    assert supervisor is not None
    guard = supervisor.parent()
    assert guard is not None
    actor = guard.parent()
    assert actor is not None
    actor.kill()
    lost = lost_slot(joined.events)
    assert (lost.host_lost, lost.expected) == (True, False)
    assert joined.ended()
    ready = wait_for(joined.events, HostReady)
    assert isinstance(ready, HostReady)
    assert ready.host == joined.host


def test_a_slot_that_is_killed_while_ray_places_it_is_lost_as_expected(joined: Joined) -> None:
    engine = joined.bench.engine
    engine.open(joined.bench.spec(2))
    engine.kill(slot_id(2))
    lost = lost_slot(joined.events)
    assert (lost.slot, lost.expected) == (slot_id(2), True)


def test_a_slot_on_a_node_that_left_is_lost(
    engine: tuple[RayEngine, Events], tmp_path: Path
) -> None:
    device = Device(kind="cpu", index=0, host="node-that-left")
    engine[0].open(
        SlotSpec(slot=slot_id("late"), devices=(device,), threads=1, log=str(tmp_path / "log"))
    )
    assert lost_slot(engine[1]).host_lost


def test_a_frozen_node_is_lost_and_what_thaws_there_ends(joined: Joined) -> None:
    (raylet,) = [p.process for name, p in _processes(joined.node) if "raylet" in name]
    frozen = [psutil.Process(raylet.pid)]
    frozen += [*frozen[0].children(recursive=True)]
    for process in frozen:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
    try:
        lost = lost_slot(joined.events)
        assert (lost.host_lost, lost.expected) == (True, False), lost.reason
    finally:
        for process in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
    assert joined.ended()


def _processes(node: Any) -> list[tuple[str, Any]]:
    return [(name, p) for name, all_ in node.all_processes.items() for p in all_]
