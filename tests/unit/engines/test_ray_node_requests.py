"""Placeholders that ask an autoscaler for nodes."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

from benchfleet.domain.resource import Need
from benchfleet.engines.ray_cluster import Placed, Placeholder, RayCluster
from benchfleet.engines.ray_node_requests import NodeRequests
from benchfleet.engines.ray_resources import Node, Share

GPU, PAIR, CPU = Need(gpus=1), Need(gpus=2), Need()


class FakeCluster:
    """Keeps the placeholders that wait."""

    def __init__(self) -> None:
        self.waiting: list[Placeholder] = []
        self.placed: dict[str, Placed] = {}  # by shape
        self.labels: list[Any] = []

    def request_node(self, share: Share, labels: Any) -> Placeholder:
        self.labels.append(labels)
        shape = f"GPU: {share.gpus:g}" if share.gpus else f"CPU: {share.cpus:g}"
        made = Placeholder(actor=object(), placed=Future(), shape=shape)
        self.waiting.append(made)
        return made

    def placed_on(self, placeholder: Placeholder) -> Placed | None:
        return self.placed.get(placeholder.shape)

    def end_placeholder(self, placeholder: Placeholder) -> None:
        self.waiting = [one for one in self.waiting if one is not placeholder]

    @property
    def shapes(self) -> list[str]:
        return sorted(one.shape for one in self.waiting)


def made(limit: int = 3, **labels: str) -> tuple[FakeCluster, NodeRequests]:
    cluster = FakeCluster()
    return cluster, NodeRequests(cast(RayCluster, cluster), limit=limit, labels=labels)


def test_so_many_nodes_are_asked_for_at_most_and_each_need_gets_one_first() -> None:
    cluster, requests = made(limit=3)
    requests.expect({GPU: 100, PAIR: 1, Need(endpoint="server"): 4})
    report = requests.update([])
    assert cluster.shapes == ["GPU: 1", "GPU: 1", "GPU: 2"]
    assert report == "waits for an autoscaler to bring 2 x {GPU: 1}, 1 x {GPU: 2}"
    assert requests.update([]) == report
    assert len(cluster.waiting) == 3


def test_no_more_nodes_are_asked_for_than_cells_wait() -> None:
    cluster, requests = made()
    requests.expect({GPU: 1})
    requests.update([])
    assert cluster.shapes == ["GPU: 1"]


def test_a_request_is_taken_back_once_nothing_waits_and_at_the_end() -> None:
    cluster, requests = made()
    requests.expect({GPU: 2})
    requests.update([])
    requests.expect({CPU: 1})
    requests.update([])
    assert cluster.shapes == ["CPU: 2"]
    requests.end()
    assert cluster.waiting == []


def test_a_request_that_a_node_has_room_for_is_not_repeated_at_once() -> None:
    cluster, requests = made()
    node = Node(id="n", name="n", resources={"GPU": 1, "CPU": 2})
    requests.expect({GPU: 1})
    requests.update([node])
    cluster.placed["GPU: 1"] = Placed(node_id="n")
    assert requests.update([node]) == ""
    assert cluster.waiting == []
    assert requests.update([node]) == ""


def test_a_request_placed_on_a_new_node_is_ended_and_others_follow() -> None:
    cluster, requests = made(limit=1)
    requests.expect({GPU: 2})
    requests.update([])
    cluster.placed["GPU: 1"] = Placed(node_id="new")
    requests.update([])
    assert len(cluster.waiting) == 1  # the next one


def test_what_ray_refuses_is_reported_with_its_reason() -> None:
    cluster, requests = made(kind="big")
    requests.expect({GPU: 1})
    requests.update([])
    cluster.placed["GPU: 1"] = Placed(refusal="no such node type")
    assert requests.update([]) == "no node has {GPU: 1}: no such node type"
    assert cluster.waiting == []
    assert cluster.labels == [{"kind": "big"}]
