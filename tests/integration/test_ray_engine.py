"""Slots on a real Ray cluster of several nodes that come, leave, freeze and die."""

from __future__ import annotations

import contextlib
import os
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
from benchfleet.domain.resource import Device, Need
from benchfleet.engines.base import (
    EngineEvent,
    HostAwaited,
    HostLost,
    HostReady,
    Recorded,
    SlotLost,
    SlotReady,
    SlotSpec,
)
from benchfleet.engines.ray_cluster import RayCluster
from benchfleet.engines.ray_engine import RayEngine
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.testing.engine_fixture import EVENT_TIMEOUT_S, Bench, Events, slot_id
from ray_clusters import LOST_CALLS, RayNodes, ray_nodes

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Ray has several nodes on Linux"),
    # Nodes of Ray's own test cluster leave files open.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MAX_LOST_CALLS = 5  # of which a slot does not come up, where calls of Ray are lost


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """A cluster whose head runs nothing."""
    with ray_nodes(cpus=0) as made:
        RayCluster(made.address)
        yield made


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

    def __init__(self, nodes: RayNodes, engine: RayEngine, events: Events, **more: Any) -> None:
        self.node: Any = nodes.add(cpus=2, **more)
        self.nodes, self.engine, self.events = nodes, engine, events
        self.host, self.processes = "", list[psutil.Process]()

    def begin(self, folder: Path) -> None:
        """Run a cell in a slot of this node, and not of one that an earlier test left behind."""
        while not self.host.endswith(self.node.node_id[:6]):
            ready = wait_for(self.events, HostReady)
            assert isinstance(ready, HostReady)
            self.host = ready.host
        self.bench = Bench(self.engine, self.events, folder, host=self.host)
        self.slot = psutil.Process(self._open().hello["pid"])
        self.bench.run(act="litter", samples=10_000, seconds=0.05, at=1)
        for _ in range(3):
            wait_for(self.events, Recorded)
        self.processes = [self.slot, *self.slot.children(recursive=True)]
        assert len(self.processes) > 1  # one is in a session of its own

    def _open(self) -> SlotReady:
        for _ in range(MAX_LOST_CALLS if "RAY_testing_rpc_failure" in os.environ else 0):
            with contextlib.suppress(AssertionError):
                return self.bench.open()
        return self.bench.open()

    def leave(self, *, in_order: bool = False) -> None:
        self.nodes.remove(self.node, in_order=in_order)

    def ended(self) -> bool:
        return psutil.wait_procs(self.processes, timeout=EVENT_TIMEOUT_S)[1] == []


@pytest.fixture
def joined(nodes: RayNodes, engine: tuple[RayEngine, Events], tmp_path: Path) -> Iterator[Joined]:
    yield from joining(Joined(nodes, *engine), tmp_path)


@pytest.fixture
def joined_with_faults(
    nodes: RayNodes, engine: tuple[RayEngine, Events], tmp_path: Path
) -> Iterator[Joined]:
    """The node loses every tenth call and every tenth answer of Ray."""
    yield from joining(Joined(nodes, *engine, env_vars=LOST_CALLS), tmp_path)


def joining(made: Joined, folder: Path) -> Iterator[Joined]:
    try:
        made.begin(folder)
        yield made
    finally:
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


def test_without_any_node_others_are_awaited(engine: tuple[RayEngine, Events]) -> None:
    awaited = wait_for(engine[1], HostAwaited)
    assert isinstance(awaited, HostAwaited)
    assert awaited.host == "cluster"
    assert "cluster" in engine[0].hosts()


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


def test_a_killed_actor_is_a_lost_host_until_the_node_answers(joined: Joined) -> None:
    """Then its slots open again; one that is killed while Ray places it is lost as expected."""
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
    joined.engine.open(joined.bench.spec(2))
    joined.engine.kill(slot_id(2))
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


def test_what_waits_for_an_autoscaler_is_asked_of_it_and_a_node_that_joins_is_used(
    nodes: RayNodes,
) -> None:
    events = Events()
    made = RayEngine(
        events.put, cluster=RayCluster(), like=Host(name="cluster"), examine=capacity_from_facts,
        labels={"kind": "big"}, pending_nodes=2,
    )  # fmt: skip
    try:
        assert "may bring nodes" in awaited(events)
        made.expect({Need(gpus=1): 5})
        assert awaited(events).endswith("bring 2 x {GPU: 1, kind: big}")
        small = nodes.add(cpus=1, gpus=1)
        node = nodes.add(cpus=2, gpus=1, labels={"kind": "big"})
        ready = wait_for(events, HostReady)
        assert isinstance(ready, HostReady)
        assert len(made.hosts()) == 2  # the node that has the label, and those to come
        made.expect({})
        while "may bring nodes" not in awaited(events):
            pass
        nodes.remove(node, in_order=True)
        nodes.remove(small, in_order=True)
    finally:
        made.shutdown()


def awaited(events: Events) -> str:
    event = wait_for(events, HostAwaited)
    assert isinstance(event, HostAwaited)
    return event.reason


def test_a_frozen_node_that_loses_calls_too_is_lost_and_what_thaws_there_ends(
    joined_with_faults: Joined,
) -> None:
    joined = joined_with_faults
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
