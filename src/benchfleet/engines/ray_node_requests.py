"""Asking the autoscaler of a Ray cluster for nodes, with actors that wait to be placed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from benchfleet.domain.resource import Need
from benchfleet.engines.ray_cluster import Placeholder, RayCluster
from benchfleet.engines.ray_resources import Node, Share

PAUSE_S = 60.0  # without a request for a need that a node here already has room for
DEFAULT_CPUS = 2.0  # of a slot, where no node says how many


@dataclass(kw_only=True)
class _Request:
    """One node that is asked for."""

    placeholder: Placeholder
    known_nodes: frozenset[str]  # the ids of the nodes that were there before


class NodeRequests:
    """Holds at most `limit` placeholders, one for each node that waiting cells could use.

    An autoscaler brings nodes on which pending actors fit. A placeholder that Ray placed is ended:
    its node joins as any other.
    """

    def __init__(
        self,
        cluster: RayCluster,
        *,
        limit: int,
        labels: Mapping[str, str],
        memory: int = 0,
    ) -> None:
        """`memory`: bytes that each slot reserves; 0 for none."""
        self._cluster, self._limit, self._labels = cluster, limit, labels
        self._memory = memory
        self._lock = threading.Lock()
        self._needs: Mapping[Need, int] = {}
        self._open: list[tuple[Need, _Request]] = []
        self._paused: dict[Need, float] = {}  # until then
        self._refused: dict[str, str] = {}  # why, by shape

    def expect(self, waiting: Mapping[Need, int]) -> None:
        """Take what the cells that wait need, and how many they are."""
        with self._lock:
            self._needs = {need: count for need, count in waiting.items() if not need.endpoint}

    def update(self, nodes: Sequence[Node]) -> str:
        """Ask for what is missing, and take back what is not; `nodes` are alive. Returns what is
        waited for; ``""`` for nothing."""
        now = time.monotonic()
        with self._lock:
            needs = dict(self._needs)
        self._open = [one for one in self._open if not self._settled(*one, now)]
        required = self._choose(needs, now)
        for need, request in list(self._open):
            if required[need] > 0:
                required[need] -= 1
            else:
                self._cluster.end_placeholder(request.placeholder)
                self._open.remove((need, request))
        known_nodes = frozenset(node.id for node in nodes)
        for need in required.elements():
            share = Share(cpus=self._cpus(need, nodes), gpus=_gpus(need), memory=self._memory)
            placeholder = self._cluster.request_node(share, self._labels)
            self._open.append((need, _Request(placeholder=placeholder, known_nodes=known_nodes)))
        return self._report()

    def end(self) -> None:
        """Take all requests back."""
        for _, request in self._open:
            self._cluster.end_placeholder(request.placeholder)
        self._open.clear()

    def _choose(self, needs: Mapping[Need, int], now: float) -> Counter[Need]:
        """The needs to hold a request for; each gets one before any gets a second."""
        unmet = {need: count for need, count in needs.items() if self._paused.get(need, 0.0) <= now}
        required: Counter[Need] = Counter()
        while unmet and required.total() < self._limit:
            for need in list(unmet):
                if required.total() == self._limit:
                    break
                required[need] += 1
                if required[need] == unmet[need]:
                    del unmet[need]
        return required

    def _settled(self, need: Need, request: _Request, now: float) -> bool:
        """Whether a request came to its end: Ray placed or refused it."""
        placed = self._cluster.placed_on(request.placeholder)
        if placed is None:
            return False
        self._cluster.end_placeholder(request.placeholder)
        if placed.refusal:
            self._refused[request.placeholder.shape] = placed.refusal
            self._paused[need] = inf
        elif placed.node_id in request.known_nodes:
            self._paused[need] = now + PAUSE_S
        return True

    def _cpus(self, need: Need, nodes: Sequence[Node]) -> float:
        """The CPUs to ask for beside GPUs: those of a usual slot, where only CPUs are needed."""
        if _gpus(need):
            return 1.0
        return min([DEFAULT_CPUS, *(node.cpus for node in nodes if node.cpus >= 1)])

    def _report(self) -> str:
        shapes = Counter(request.placeholder.shape for _, request in self._open)
        text = ", ".join(f"{count} x {{{shape}}}" for shape, count in sorted(shapes.items()))
        parts = [f"waits for an autoscaler to bring {text}"] if text else []
        parts += [f"no node has {{{shape}}}: {why}" for shape, why in self._refused.items()]
        return "; ".join(parts)


def _gpus(need: Need) -> int:
    return need.gpus or int(need.vram > 0)
