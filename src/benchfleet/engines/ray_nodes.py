"""The nodes of a Ray cluster as hosts: they join, are asked, and leave."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from benchfleet.engines.base import HostAwaited, HostLost, HostReady, Post, SlotId
from benchfleet.engines.ray_cluster import NodeAway, RayCluster
from benchfleet.engines.ray_node_requests import NodeRequests
from benchfleet.engines.ray_resources import Node
from benchfleet.errors import BenchfleetError

LIST_EVERY_S = 1.0
SUSPENDED_S = 10.0  # without a check: this process did not run, so the head is not to blame
JOIN_S = 10.0  # for a call of Ray that may never return, since the head is away
FIRST_ANSWER_S = 300.0  # a runtime environment may be installed first
ANSWER_S = 30.0  # at first: other slots run there, and a busy node starts processes slowly
FIRST_RETRY_S = 1.0  # a node that joins may refuse at first: not all of Ray knows it yet
MAX_RETRY_S = 10.0

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
        self._thread.join(JOIN_S)

    def _end(self) -> None:
        self._over.set()
        self._doubted.set()

    def _run(self) -> None:
        answered, failures = False, 0
        while not self._over.is_set():
            self._doubted.clear()
            try:
                answer = self._look(answer_limit(failures) if answered else FIRST_ANSWER_S)
                ready = self._ready(self.node, answer)
            except NodeAway as error:
                self._lose(HostLost(host=self.node.name, reason=f"does not answer: {error}"))
                self._over.wait(retry_pause(failures))
                failures += 1
            except BenchfleetError as error:
                self._lose(HostLost(host=self.node.name, reason=str(error), hopeless=True))
                self._doubted.wait()
            else:
                answered, failures, self._reported = True, 0, False
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


def answer_limit(failures: int) -> float:
    """Seconds for an answer of a node that answered before, and failed so many times since.

    A look that is given up ends the process that Ray started for it: a node that needs longer than
    the same limit every time would never answer.
    """
    return min(FIRST_ANSWER_S, ANSWER_S * 2.0 ** min(failures, 10))


def retry_pause(failures: int) -> float:
    """Seconds before a node is asked again that gave no answer so many times before."""
    return min(MAX_RETRY_S, FIRST_RETRY_S * 2.0 ** min(failures, 10))


class RayNodes:
    """Lists the nodes of the cluster every second, and follows each.

    `name` stands for nodes that are still to join: it is awaited where `requests` go to an
    autoscaler, and else while no node is alive, so that cells which fit no node do not wait where
    there is one.
    """

    def __init__(
        self,
        cluster: RayCluster,
        post: Post,
        *,
        name: str,
        follow: Callable[[Node], RayNode],
        requests: NodeRequests | None,
        labels: Mapping[str, str],
    ) -> None:
        """Nodes without one of the `labels` are not used."""
        self._cluster, self._post, self._name, self._follow = cluster, post, name, follow
        self._requests, self._labels = requests, labels
        self._listed = self._checked = 0.0
        self.headless = False  # the head did not answer for too long
        self._over, self._lock = threading.Event(), threading.Lock()
        self._nodes: dict[str, RayNode] = {}  # by name
        self._past: list[RayNode] = []
        self._awaited = ""  # why more nodes may join
        self._started = False
        self._names: list[str] = []
        self._thread = threading.Thread(target=self._run, name=f"nodes of {name}", daemon=True)

    def start(self) -> None:
        """List the nodes once, then again and again in a thread."""
        self._list()
        self._checked = time.monotonic()
        self._started = True
        self._thread.start()

    def names(self) -> list[str]:
        """Every node that was ever alive, and what stands for those that are awaited now."""
        return [*self._names, self._name] if self._awaited else list(self._names)

    def get(self, name: str) -> RayNode | None:
        """The node of this name; None if it has left."""
        return self._nodes.get(name)

    def check(self, now: float) -> None:
        """Give all nodes up once the head has not answered for too long: the call that lists them
        may never return. Called again and again."""
        with self._lock:
            if now - self._checked > SUSPENDED_S:
                self._listed = now
            self._checked = now
            timeout = self._cluster.head_timeout
            if not self._started or self._over.is_set() or now - self._listed < timeout:
                return
            self._over.set()
            self.headless = True
            reason = f"the head of the Ray cluster did not answer for {timeout:g} s"
            for one in self._nodes.values():
                one.leave(reason)
            self._past += self._nodes.values()
            self._nodes.clear()
            if self._awaited:
                self._awaited = ""
                self._post(HostLost(host=self._name, reason=reason, removed=True))

    def end(self) -> None:
        """Follow no node any longer."""
        self._over.set()
        if self._thread.is_alive() and not self.headless:
            self._thread.join(JOIN_S)
        for one in (*self._nodes.values(), *self._past):
            one.end()
        if self._requests is not None:
            self._requests.end()

    def _run(self) -> None:
        while not self._over.wait(LIST_EVERY_S):
            with contextlib.suppress(NodeAway):  # then the next time
                self._list()

    def _list(self) -> None:
        alive = {
            node.name: node
            for node in self._cluster.nodes()
            if self._labels.items() <= node.labels.items()
        }
        awaited = self._why_awaited(alive)
        with self._lock:
            if not self._over.is_set():
                self._listed = time.monotonic()
                self._update(alive, awaited)

    def _update(self, alive: Mapping[str, Node], awaited: str) -> None:
        """Follow the nodes that joined, and let those go that left."""
        if awaited and awaited != self._awaited:
            self._post(HostAwaited(host=self._name, reason=awaited))
        for name in self._nodes.keys() - alive.keys():
            departed = self._nodes.pop(name)
            departed.leave("the node left the Ray cluster")
            self._past.append(departed)
        for name in alive.keys() - self._nodes.keys():
            self._names.append(name)
            if self._started:  # the runner knows those from the beginning
                self._post(HostAwaited(host=name, reason="it joined and has not answered yet"))
            self._nodes[name] = self._follow(alive[name])
        if self._awaited and not awaited:
            self._post(HostLost(host=self._name, reason="a node joined", removed=True))
        self._awaited = awaited

    def _why_awaited(self, alive: Mapping[str, Node]) -> str:
        """Why more nodes may join; ``""`` where none is expected."""
        if self._requests is not None:
            report = self._requests.update(list(alive.values()))
            return report or "the autoscaler of the Ray cluster may bring nodes"
        return "" if alive else f"no node of the Ray cluster is alive{self._labelled()}"

    def _labelled(self) -> str:
        text = ", ".join(f"{name}: {value}" for name, value in self._labels.items())
        return f" that has {text}" if text else ""
