"""A Ray cluster as an engine needs it: connect, list its nodes, run something on one of them."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.humanize import sized
from benchfleet.engines.ray_actor import NodeRequest, SlotActor, look
from benchfleet.engines.ray_resources import Node, Share
from benchfleet.errors import BenchfleetError
from benchfleet.hints import hint

CONNECT_S = 10.0  # for a connection to the head
_POLL_S = 0.2
_ID_CHARACTERS = 6  # of a node's id, in the name of its host
_HEAD_LIMIT = "RAY_gcs_rpc_server_reconnect_timeout_s"  # as nodes read it too
_HEAD_LIMIT_S = 60.0  # seconds, where it is not set
_NEVER_S = 86400  # more milliseconds may not fit Ray's numbers
_NOT_IN_NAMES = re.compile(r"[^\w.+-]+")


@dataclass(frozen=True, kw_only=True)
class Call:
    """A slot's actor, and the call that lasts as long as the slot."""

    actor: Any
    ended: Future[int]


@dataclass(frozen=True, kw_only=True)
class Placeholder:
    """An actor that does nothing but wait to be placed."""

    actor: Any
    placed: Future[str]  # the node's id
    shape: str  # what it asks for, such as ``GPU: 1``


@dataclass(frozen=True, kw_only=True)
class Placed:
    """What became of a placeholder: its node's id, or why Ray refused it."""

    node_id: str = ""
    refusal: str = ""


class NodeAway(BenchfleetError):
    """The node does not answer."""


class RayCluster:
    """The cluster that this process is a driver of.

    The constructor connects, unless this process is a driver already. Raises BenchfleetError.
    """

    def __init__(self, address: str = "", *, runtime_env: Mapping[str, Any] | None = None) -> None:
        if address.startswith("ray://"):
            raise BenchfleetError(
                f"{address} is an address of Ray Client, which nodes cannot connect back to; run "
                "benchfleet on the cluster instead: ray job submit -- benchfleet run …"
            )
        self.head_timeout = float(os.environ.get(_HEAD_LIMIT, _HEAD_LIMIT_S))
        with _outlives_head():
            import ray

            self._ray = ray
            self._own = not ray.is_initialized()
            if self._own:
                _silence_ray()
                with _signal_handlers_kept():
                    self._connect(address, runtime_env or {})
        self._actor_class = ray.remote(SlotActor)
        self._look = ray.remote(look)
        self._request_class = ray.remote(NodeRequest)

    def _connect(self, address: str, runtime_env: Mapping[str, Any]) -> None:
        fields = self._ray.runtime_env.RuntimeEnv.known_fields
        if unknown := sorted(runtime_env.keys() - fields):  # Ray ignores them
            choice = hint(unknown[0], sorted(fields))
            raise BenchfleetError(f"Ray's runtime_env has no field {unknown[0]!r}; {choice}")
        named = address or os.environ.get("RAY_ADDRESS", "")
        try:
            _check_answers(named)
            self._ray.init(
                address=address or "auto",
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env=dict(runtime_env) or None,
            )
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            where = f"at {named}" if named else "here"
            # Ray goes on with an option of its own, which benchfleet does not have.
            text = getattr(error, "strerror", None) or str(error)
            reason = text.partition(" Please specify")[0].rstrip(".")
            raise BenchfleetError(
                f"no Ray cluster can be used {where}: {reason}; start one with `ray start --head`, "
                "or name it with --ray-address HOST:PORT"
            ) from None

    @property
    def driver_address(self) -> str:
        """The address by which nodes reach this machine."""
        return str(self._ray.util.get_node_ip_address())

    def nodes(self) -> list[Node]:
        """The nodes that are alive and have a CPU or a GPU to run on: many heads have none. Raises
        NodeAway where the cluster's head does not answer."""
        alive = []
        try:
            listed = self._ray.nodes()
        except Exception as error:  # noqa: BLE001 - of many classes, some of them private
            raise NodeAway(f"the head does not answer: {_first_line(error)}") from None
        for node in listed:
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
            why = f"benchfleet does not run there: {_last_line(error.cause)}"
            remedy = "install it on the node, or set 'bootstrap: true' of the engine"
            raise BenchfleetError(f"{why}; {remedy}") from None
        except ray.exceptions.RuntimeEnvSetupError as error:
            raise BenchfleetError(f"its runtime environment fails: {_last_line(error)}") from None
        except Exception as error:  # noqa: BLE001 - of many classes, some of them private
            raise NodeAway(_first_line(error)) from None
        raise NodeAway(f"no answer within {limit:g} s")

    def start(self, node: Node, address: tuple[str, int], key: str, share: Share) -> Call:
        """Create an actor for a slot on the node. Returns at once."""
        actor = self._actor_class.options(
            **share.options,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=self._on(node),
        ).remote()
        return Call(actor=actor, ended=actor.run.remote(address, key).future())

    def request_node(self, share: Share, labels: Mapping[str, str]) -> Placeholder:
        """Create an actor that an autoscaler sees as long as no node has room for it."""
        kind, count = ("GPU", share.gpus) if share.gpus else ("CPU", share.cpus)
        memory = {"memory": sized(share.memory)} if share.memory else {}
        shape = {kind: f"{count:g}", **memory, **labels}
        options: dict[str, Any] = {"label_selector": dict(labels)} if labels else {}
        actor = self._request_class.options(**share.options, max_restarts=0, **options).remote()
        text = ", ".join(f"{name}: {value}" for name, value in shape.items())
        return Placeholder(actor=actor, placed=actor.node.remote().future(), shape=text)

    def placed_on(self, placeholder: Placeholder) -> Placed | None:
        """What became of it; None while it waits."""
        if not placeholder.placed.done():
            return None
        if (error := placeholder.placed.exception()) is None:
            return Placed(node_id=placeholder.placed.result())
        if isinstance(error, self._ray.exceptions.ActorUnschedulableError):
            return Placed(refusal=_first_line(error))
        return Placed()

    def end_placeholder(self, placeholder: Placeholder) -> None:
        """Ask for its node no longer."""
        with contextlib.suppress(Exception):  # it is dead, or the cluster is
            self._ray.kill(placeholder.actor)

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


def _check_answers(address: str) -> None:
    """See that something listens at ``HOST:PORT``: Ray itself tries for a quarter of an hour, and
    says nothing. Raises OSError."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()


def _first_line(error: BaseException) -> str:
    return _lines(error)[0]


def _last_line(error: BaseException) -> str:
    """Of an error whose text begins with its stack."""
    return _lines(error)[-1]


def _lines(error: BaseException) -> list[str]:
    lines = [line.strip() for line in str(error).splitlines()]
    return [line for line in lines if line] or [type(error).__name__]


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


@contextlib.contextmanager
def _outlives_head() -> Iterator[None]:
    """Have a Ray that is imported here not kill this process once the head is away: the run is to
    end in good order."""
    before = os.environ.get(_HEAD_LIMIT)
    os.environ[_HEAD_LIMIT] = str(_NEVER_S)
    try:
        yield
    finally:
        del os.environ[_HEAD_LIMIT]
        if before is not None:
            os.environ[_HEAD_LIMIT] = before


def _silence_ray() -> None:
    """Keep standard output clean for ``--json``: Ray prints the raylet's errors there even with
    ``log_to_driver=False``, and has no public switch for it."""
    from ray._private import worker

    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False
