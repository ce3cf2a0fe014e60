"""Slots on the nodes of a Ray cluster: the same slot program, started by an actor."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.host import Host
from benchfleet.domain.resource import GpuChecks, Need
from benchfleet.engines import ray_settings
from benchfleet.engines.base import EngineEvent, HostReady, Post, SlotId, SlotLost, SlotSpec
from benchfleet.engines.child import Child, create_log
from benchfleet.engines.exit_reasons import slot_lost, start_failure
from benchfleet.engines.plugin import EngineOptions, EnginePlugin, Examine
from benchfleet.engines.protocol import gpu_checks
from benchfleet.engines.ray_capacity import node_capacity, slot_share
from benchfleet.engines.ray_cluster import RayCluster
from benchfleet.engines.ray_node_requests import NodeRequests
from benchfleet.engines.ray_nodes import RayNode, RayNodes
from benchfleet.engines.ray_opening import Opening
from benchfleet.engines.ray_process import RayProcess
from benchfleet.engines.ray_resources import Node
from benchfleet.engines.ray_tls import tls_context
from benchfleet.engines.remote_engine import RemoteEngine
from benchfleet.engines.slot_listener import Hello, SlotListener

PLACE_S = 60.0  # seconds for Ray to place a slot's actor, and for it to connect
_CALLERS = 8  # threads that speak to Ray


class RayEngine(RemoteEngine, EnginePlugin):
    """Opens slots on Ray nodes; see `benchfleet.engines.base` for the contract.

    A node is a host, and a slot is an actor that holds its resources. Ray places and supervises;
    it passes no sample on and retries nothing.
    """

    requires: ClassVar[tuple[str, ...]] = ("ray",)
    extra: ClassVar[str] = "ray"
    settings: ClassVar[Mapping[str, type]] = ray_settings.SETTINGS

    @classmethod
    def open_engine(cls, post: Post, options: EngineOptions) -> RayEngine:
        settings = options.settings
        assert options.examine is not None  # noqa: S101 - every run gives it
        return cls(
            post,
            cluster=RayCluster(
                settings.get("address", ""), runtime_env=ray_settings.runtime_env(settings)
            ),
            like=ray_settings.like_host(options.name, settings),
            examine=options.examine,
            checks=options.checks,
            labels=settings.get("labels", {}),
            memory=ray_settings.slot_memory(settings),
            pending_nodes=settings.get("pending_nodes", 0),
        )

    @classmethod
    def settings_problem(cls, settings: Mapping[str, Any]) -> str:
        return super().settings_problem(settings) or ray_settings.problem(settings)

    def __init__(
        self,
        post: Callable[[EngineEvent], None],
        *,
        cluster: RayCluster,
        like: Host,
        examine: Examine,
        heartbeat: float = 5.0,
        silence: float = 60.0,
        orphan_timeout: float = 60.0,
        checks: GpuChecks | None = None,
        labels: Mapping[str, str] | None = None,
        memory: int = 0,
        pending_nodes: int = 0,
    ) -> None:
        """`like` says what to use of each node, and `memory` how many bytes of it each slot
        reserves; 0 for none."""
        self._memory = memory
        self._cluster, self._like, self._examine, self._checks = cluster, like, examine, checks
        self._openings: dict[SlotId, Opening] = {}
        self._by_key: dict[str, Opening] = {}
        self._callers = ThreadPoolExecutor(_CALLERS, thread_name_prefix="ray call")
        self._listener = SlotListener(
            cluster.driver_address, self._connected, tls=tls_context(os.environ, server=True)
        )
        limit, labels = pending_nodes, labels or {}
        self._requests = None
        if limit:
            self._requests = NodeRequests(cluster, limit=limit, labels=labels, memory=memory)
        self._nodes = RayNodes(
            cluster, post, name=like.name, follow=self._follow, requests=self._requests,
            labels=labels,
        )  # fmt: skip
        super().__init__(post, heartbeat=heartbeat, silence=silence, orphan_timeout=orphan_timeout)
        self._nodes.start()

    # The contract

    def hosts(self) -> Sequence[str]:
        return self._nodes.names()

    def expect(self, waiting: Mapping[Need, int]) -> None:
        if self._requests is not None:
            self._requests.expect(waiting)

    def slots(self) -> Sequence[SlotId]:
        with self._lock:
            return [*self._slots, *(slot for slot in self._openings if slot not in self._slots)]

    def open(self, spec: SlotSpec) -> None:
        if (followed := self._nodes.get(spec.host)) is None:
            reason = "its node left the Ray cluster"
            self._post(SlotLost(slot=spec.slot, reason=reason, host_lost=True))
            return
        try:
            create_log(Path(spec.log))
        except OSError as error:
            self._post(SlotLost(slot=spec.slot, reason=start_failure(error)))
            return
        opening = Opening(
            spec=spec,
            key=self._listener.new_key(),
            node=followed.node,
            since=time.monotonic(),
        )
        with self._lock:
            self._openings[spec.slot] = self._by_key[opening.key] = opening
            self._host_of[spec.slot] = spec.host
        self._callers.submit(self._start, opening)

    def close(self, slot: SlotId) -> None:
        if not self._end_opening(slot, "closed before it was ready", expected=True):
            super().close(slot)

    def kill(self, slot: SlotId) -> None:
        if not self._end_opening(slot, "killed before it was ready", expected=True):
            super().kill(slot)

    def shutdown(self) -> None:
        self._nodes.end()
        super().shutdown()
        self._listener.close()
        self._callers.shutdown(wait=not self._nodes.headless, cancel_futures=True)
        self._cluster.disconnect()

    # Opening

    def _start(self, opening: Opening) -> None:
        """Create the slot's actor. What it needs is the share of a slot on its node."""
        spec, node = opening.spec, opening.node
        share = slot_share(spec, node, like=self._like, memory=self._memory)
        try:
            call = self._cluster.start(node, self._listener.address, opening.key, share)
        except Exception as error:  # noqa: BLE001 - whatever Ray raises, the slot did not start
            self._end_opening(spec.slot, f"Ray did not start it: {error}")
            return
        with self._lock:
            opening.call, over = call, opening.over
        if over:
            self._cluster.kill(call)
        call.ended.add_done_callback(lambda ended: self._call_ended(opening, ended))

    def _connected(self, hello: Hello, connection: socket.socket) -> None:
        """A supervisor's connection; the second one completes the slot."""
        with self._lock:
            opening = self._by_key.get(hello["key"])
            if opening is None or opening.over or hello.get("stream") in opening.streams:
                connection.close()
                return
            opening.streams[hello["stream"]] = connection
            if set(opening.streams) != {"frames", "output"}:
                return
            self._forget_key(opening)
            streams = opening.streams
            spec, marker_key = opening.spec, secrets.token_hex(8)
            opening.process = RayProcess(
                streams["frames"], streams["output"], lambda: self._end_actor(opening)
            )
            child = Child(
                spec.slot, opening.process, log=Path(spec.log), key=marker_key, remote=True
            )
            child.scratch = f"{self._like.folder}/scratch/{spec.slot}"
            self._admit(
                spec,
                child,
                {
                    "marker_key": marker_key,
                    "scratch": child.scratch,
                    "python": spec.python,
                    "package": hello.get("package", ""),
                    "gpus": hello.get("gpus", ""),
                    **gpu_checks(spec, self._checks, named=False),
                },
            )

    def _call_ended(self, opening: Opening, ended: Future[int]) -> None:
        """The actor's call returned, which its connections report too, or failed."""
        if (error := ended.exception()) is None:
            return
        reason, is_away = self._cluster.why(error)
        if opening.process is not None:
            opening.process.note_death()
        elif self._end_opening(opening.spec.slot, reason, host_lost=is_away) and is_away:
            self._doubt(opening.spec.host)

    def _end_opening(
        self,
        slot: SlotId,
        reason: str,
        *,
        expected: bool = False,
        host_lost: bool = False,
        busy: bool = False,
    ) -> bool:
        """End a slot whose supervisor has not connected; whether it was such a slot."""
        with self._lock:
            opening = self._openings.get(slot)
            if opening is None or opening.process is not None:
                return False
            opening.over = True
            self._forget_key(opening)
            del self._openings[slot]
            self._host_of.pop(slot, None)
            for stream in opening.streams.values():
                stream.close()
            self._post(
                SlotLost(
                    slot=slot, reason=reason, expected=expected, host_lost=host_lost, busy=busy
                )
            )
        self._end_actor(opening)
        return True

    def _forget_key(self, opening: Opening) -> None:
        self._by_key.pop(opening.key, None)
        self._listener.forget(opening.key)

    def _end_actor(self, opening: Opening) -> None:
        if (call := opening.call) is not None and not call.ended.done():
            threading.Thread(target=self._cluster.kill, args=(call,), daemon=True).start()

    # Of a process engine

    def _check_all(self, now: float) -> None:
        super()._check_all(now)
        self._nodes.check(now)
        for slot, opening in list(self._openings.items()):
            if opening.process is None and now - opening.since > PLACE_S:
                reason = f"Ray did not place it within {PLACE_S:g} s; its node is busy"
                self._end_opening(slot, reason, busy=True)

    def _exited(self, child: Child) -> None:
        with self._lock:
            self._openings.pop(child.id, None)
        super()._exited(child)

    def _unseen_exit(self, child: Child, code: int | None) -> SlotLost:
        why = child.reason or "its actor or its connection was lost"
        return slot_lost(child, why, None, host_lost=child.kind is None)

    def _doubt(self, host: str) -> None:
        if (followed := self._nodes.get(host)) is not None:
            followed.check()

    # Nodes

    def _follow(self, node: Node) -> RayNode:
        calls = self._post, self._ready, self._abandon, self._take_unseen
        return RayNode(node, self._cluster, *calls, self._like.folder)

    def _abandon(self, host: str, why: str) -> None:
        with self._lock:
            waiting = [slot for slot in self._openings if self._host_of.get(slot) == host]
        for slot in waiting:
            self._end_opening(slot, f"its host was lost: {why}", host_lost=True)
        self._lose_slots(host, why)

    def _ready(self, node: Node, facts: str) -> HostReady:
        return node_capacity(
            node, facts, like=self._like, examine=self._examine, memory=self._memory
        )
