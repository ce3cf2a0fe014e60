"""A Ray cluster as an engine needs it: connect, list its nodes, run something on one of them."""

from __future__ import annotations

import contextlib
import logging
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from benchfleet.engines.ray_actor import SlotActor, look
from benchfleet.errors import BenchfleetError

_POLL_S = 0.2
_ID_CHARACTERS = 6  # of a node's id, in the name of its host
_NOT_IN_NAMES = re.compile(r"[^\w.+-]+")


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node that is alive."""

    id: str
    name: str  # how results and messages call it
    resources: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        return int(self.resources.get("GPU", 0))

    @property
    def cpus(self) -> float:
        return self.resources.get("CPU", 0.0)

    @property
    def accelerator(self) -> str:
        """The type of its GPUs, such as ``H100``; ``""`` if Ray does not know it."""
        types = [n for n in self.resources if n.startswith("accelerator_type:")]
        return types[0].partition(":")[2] if types else ""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A slot's actor, and the call that lasts as long as the slot."""

    actor: Any
    ended: Future[int]


class NodeAway(BenchfleetError):
    """The node does not answer."""


class RayCluster:
    """The cluster that this process is a driver of.

    The constructor connects, unless this process is a driver already. Raises BenchfleetError.
    """

    def __init__(self, address: str = "") -> None:
        if address.startswith("ray://"):
            raise BenchfleetError(
                f"{address} is an address of Ray Client, which nodes cannot connect back to; run "
                "benchfleet on the cluster instead: ray job submit -- benchfleet run …"
            )
        import ray

        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            _silence_ray()
            with _signal_handlers_kept():
                self._connect(address)
        self._actor_class = ray.remote(SlotActor)
        self._look = ray.remote(look)

    def _connect(self, address: str) -> None:
        try:
            self._ray.init(
                address=address or "auto", log_to_driver=False, logging_level=logging.ERROR
            )
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            where = f"at {address}" if address else "here"
            raise BenchfleetError(
                f"no Ray cluster can be used {where}: {error}; start one with `ray start --head`, "
                "or name it with --ray-address HOST:PORT"
            ) from None

    @property
    def driver_address(self) -> str:
        """The address by which nodes reach this machine."""
        return str(self._ray.util.get_node_ip_address())

    def nodes(self) -> list[Node]:
        """The nodes that are alive and have a CPU or a GPU to run on: many heads have none."""
        alive = []
        for node in self._ray.nodes():
            resources = node["Resources"]
            if not node["Alive"] or max(resources.get("CPU", 0), resources.get("GPU", 0)) < 1:
                continue
            name, node_id = node["NodeName"], node["NodeID"]
            if not name or name == node["NodeManagerAddress"]:
                name = node["NodeManagerHostname"] or node["NodeManagerAddress"]
            name = f"{_NOT_IN_NAMES.sub('-', name)}-{node_id[:_ID_CHARACTERS]}"
            alive.append(
                Node(
                    id=node_id,
                    name=name,
                    resources=resources,
                    labels=node.get("Labels") or {},
                )
            )
        return alive

    def look(
        self, node: Node, slots: Sequence[str], folder: str, *, limit: float, stop: threading.Event
    ) -> str:
        """Kill what is left of these slots on the node, and return its facts. Raises NodeAway where
        it does not answer within `limit` seconds or before `stop` is set, and BenchfleetError where
        benchfleet does not run there."""
        ray = self._ray
        try:
            task = self._look.options(
                num_cpus=0, max_retries=0, scheduling_strategy=self._on(node)
            ).remote(list(slots), folder)
            until = time.monotonic() + limit
            while time.monotonic() < until and not stop.is_set():
                if ray.wait([task], timeout=_POLL_S)[0]:
                    return str(ray.get(task))
            ray.cancel(task, force=True)
        except ray.exceptions.RayTaskError as error:
            raise BenchfleetError(f"benchfleet does not run there: {error.cause}") from None
        except ray.exceptions.RayError as error:
            raise NodeAway(_first_line(error)) from None
        raise NodeAway(f"no answer within {limit:g} s")

    def start(
        self, node: Node, address: tuple[str, int], key: str, *, cpus: float, gpus: float
    ) -> Call:
        """Create an actor for a slot on the node. Returns at once."""
        actor = self._actor_class.options(
            num_cpus=cpus,
            num_gpus=gpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=self._on(node),
        ).remote()
        return Call(actor=actor, ended=actor.run.remote(address, key).future())

    def kill(self, call: Call) -> None:
        """End the actor, and by that the slot."""
        with contextlib.suppress(Exception):  # it is dead, or the cluster is
            self._ray.kill(call.actor)

    def why(self, error: BaseException) -> tuple[str, bool]:
        """Why an actor's call failed, and whether its node or its connection is to blame."""
        exceptions = self._ray.exceptions
        if isinstance(error, exceptions.RayTaskError):
            return f"its actor failed: {getattr(error, 'cause', error)}", False
        if isinstance(error, exceptions.ActorUnschedulableError):
            return f"Ray cannot place it: {_first_line(error)}", False
        return _first_line(error), True

    def disconnect(self) -> None:
        """End the connection if it is this object's own."""
        if self._own and self._ray.is_initialized():
            with _signal_handlers_kept():
                self._ray.shutdown()

    def _on(self, node: Node) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node.id, soft=False)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Keep the runner's handlers: Ray sets its own for SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _silence_ray() -> None:
    """Keep standard output clean for ``--json``: Ray prints the raylet's errors there even with
    ``log_to_driver=False``, and has no public switch for it."""
    from ray._private import worker

    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False
