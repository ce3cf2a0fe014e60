"""The nodes of a Ray cluster as hosts: they join, are asked, and leave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from benchfleet.engines.base import HostAwaited, HostLost, HostReady, Post, SlotId
from benchfleet.engines.ray_cluster import Node, NodeAway, RayCluster
from benchfleet.errors import BenchfleetError

LIST_EVERY_S = 1.0
FIRST_ANSWER_S = 300.0  # a runtime environment may be installed first
ANSWER_S = 5.0
RETRY_S = 10.0

Ready = Callable[[Node, str], HostReady]  # raises BenchfleetError
Abandon = Callable[[str, str], None]
Unseen = Callable[[str], Sequence[SlotId]]


class RayNode:
    """Follows one node, in a thread of its own, until it has left."""

    def __init__(
        self, node: Node, cluster: RayCluster, post: Post, ready: Ready, abandon: Abandon,
        unseen: Unseen, folder: str,
    ) -> None:  # fmt: skip
        self.node = node
        self._cluster, self._post, self._ready = cluster, post, ready
        self._abandon, self._unseen, self._folder = abandon, unseen, folder
        self._doubted, self._over = threading.Event(), threading.Event()
        self._departure = ""  # why it left the cluster
        self._reported = False  # that it does not answer
        self._leftovers: list[SlotId] = []  # slots that may still run there
        self._thread = threading.Thread(target=self._run, name=f"node {node.name}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Ask the node whether it is still there, since a slot's connection broke."""
        self._doubted.set()

    def leave(self, why: str) -> None:
        """The node has left the cluster for good."""
        self._departure = why
        self._end()

    def end(self) -> None:
        """Follow it no longer, and return when its thread has ended."""
        self._end()
        self._thread.join()

    def _end(self) -> None:
        self._over.set()
        self._doubted.set()

    def _run(self) -> None:
        limit = FIRST_ANSWER_S
        while not self._over.is_set():
            self._doubted.clear()
            try:
                answer = self._look(limit)
                ready = self._ready(self.node, answer)
            except NodeAway as error:
                self._lose(HostLost(host=self.node.name, reason=f"does not answer: {error}"))
                self._over.wait(RETRY_S)
            except BenchfleetError as error:
                self._lose(HostLost(host=self.node.name, reason=str(error), hopeless=True))
                self._doubted.wait()
            else:
                limit, self._reported = ANSWER_S, False
                self._post_unless_over(ready)
                self._doubted.wait()
        if self._departure:
            self._abandon(self.node.name, self._departure)
            self._post(HostLost(host=self.node.name, reason=self._departure, removed=True))

    def _look(self, limit: float) -> str:
        """Ask the node for its facts, and then, since it answers, end what is left there."""
        answer = self._ask(limit)
        self._leftovers += self._unseen(self.node.name)
        if self._leftovers:
            answer = self._ask(limit)
            self._leftovers.clear()
        return answer

    def _ask(self, limit: float) -> str:
        return self._cluster.look(
            self.node, self._leftovers, self._folder, limit=limit, stop=self._over
        )

    def _lose(self, lost: HostLost) -> None:
        """Post it once, not again at every look that fails."""
        if not self._over.is_set() and not self._reported:
            self._reported = True
            self._abandon(self.node.name, lost.reason)
            self._post_unless_over(lost)

    def _post_unless_over(self, event: HostReady | HostLost) -> None:
        if not self._over.is_set():
            self._post(event)


class RayNodes:
    """Lists the nodes of the cluster every second, and follows each.

    `name` stands for nodes that are still to join: it is awaited while no node is alive, so that
    cells which fit no node do not wait where there is one.
    """

    def __init__(
        self, cluster: RayCluster, post: Post, *, name: str, follow: Callable[[Node], RayNode]
    ) -> None:
        self._cluster, self._post, self._name, self._follow = cluster, post, name, follow
        self._over = threading.Event()
        self._nodes: dict[str, RayNode] = {}  # by name
        self._past: list[RayNode] = []
        self._awaited = self._started = False
        self._names: list[str] = []
        self._thread = threading.Thread(target=self._run, name=f"nodes of {name}", daemon=True)

    def start(self) -> None:
        """List the nodes once, then again and again in a thread."""
        self._list()
        self._started = True
        self._thread.start()

    def names(self) -> list[str]:
        """Every node that was ever alive, and what stands for those that are awaited now."""
        return [*self._names, self._name] if self._awaited else list(self._names)

    def get(self, name: str) -> RayNode | None:
        """The node of this name; None if it has left."""
        return self._nodes.get(name)

    def end(self) -> None:
        """Follow no node any longer."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        for one in (*self._nodes.values(), *self._past):
            one.end()

    def _run(self) -> None:
        while not self._over.wait(LIST_EVERY_S):
            self._list()

    def _list(self) -> None:
        alive = {node.name: node for node in self._cluster.nodes()}
        if not alive and not self._awaited:
            self._awaited = True
            why = "no node of the Ray cluster is alive"
            self._post(HostAwaited(host=self._name, reason=why))
        for name in self._nodes.keys() - alive.keys():
            departed = self._nodes.pop(name)
            departed.leave("the node left the Ray cluster")
            self._past.append(departed)
        for name in alive.keys() - self._nodes.keys():
            self._names.append(name)
            if self._started:  # the runner knows those from the beginning
                self._post(HostAwaited(host=name, reason="it joined and has not answered yet"))
            self._nodes[name] = self._follow(alive[name])
        if alive and self._awaited:
            self._awaited = False
            self._post(HostLost(host=self._name, reason="a node joined", removed=True))
