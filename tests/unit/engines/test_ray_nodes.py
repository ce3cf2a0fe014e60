"""The nodes of a Ray cluster, as far as no cluster is needed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from benchfleet.engines import ray_nodes
from benchfleet.engines.base import EngineEvent, HostLost, HostReady
from benchfleet.engines.ray_cluster import NodeAway
from benchfleet.engines.ray_nodes import RayNode, retry_pause
from benchfleet.engines.ray_resources import Node


def test_a_node_that_gives_no_answer_is_asked_again_soon_and_then_less_often() -> None:
    pauses = [retry_pause(failures) for failures in (0, 1, 2, 3, 4, 2000)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


class _BusyCluster:
    """Each look ends the process of the one before, and a new one takes `needs_s` to answer."""

    def __init__(self) -> None:
        self.needs_s = 0.0

    def look(
        self, node: Node, slots: Sequence[str], folder: str, *, limit: float, stop: threading.Event
    ) -> str:
        if self.needs_s > limit:
            raise NodeAway(f"no answer within {limit:g} s")
        return "facts"


def test_a_node_that_became_slow_gets_more_time_with_every_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_nodes, "FIRST_RETRY_S", 0.001)
    cluster, events = _BusyCluster(), queue.SimpleQueue[EngineEvent]()
    node = RayNode(
        Node(id="1", name="node-1", resources={"CPU": 2}, labels={}),
        cast(Any, cluster),
        events.put,
        lambda node, _: HostReady(host=node.name, devices=(), slots=1, threads=1),
        lambda *_: None,
        lambda _: [],
        "",
    )
    try:
        assert isinstance(events.get(timeout=60), HostReady)
        cluster.needs_s = 60.0
        node.check()
        assert isinstance(events.get(timeout=60), HostLost)
        assert isinstance(events.get(timeout=60), HostReady)
    finally:
        node.end()
