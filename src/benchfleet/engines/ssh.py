"""Slots on other machines: the same slot program, behind the OpenSSH client."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchfleet.domain.failure import Failure
from benchfleet.domain.host import AUTO, Host
from benchfleet.domain.resource import GpuChecks
from benchfleet.engines.base import (
    AttemptRequest,
    EngineEvent,
    Failed,
    SlotId,
    SlotLost,
    SlotSpec,
    Started,
)
from benchfleet.engines.bundles import ProvisionFailed
from benchfleet.engines.child import Child, create_log
from benchfleet.engines.commands import launch
from benchfleet.engines.exit_reasons import exit_reason, slot_lost
from benchfleet.engines.host_connection import HostConnection
from benchfleet.engines.openssh import LOST, OpenSsh
from benchfleet.engines.plugin import Examine
from benchfleet.engines.protocol import gpu_checks
from benchfleet.engines.provision import FileSync
from benchfleet.engines.remote_engine import RemoteEngine
from benchfleet.engines.slot_process import SshProcess


class SshEngine(RemoteEngine):
    """Opens slots on hosts; see `benchfleet.engines.base` for the contract.

    Every host has its `python`, with the same benchfleet as here. The files that a cell needs are
    sent to its host first (`provision`). A host whose connection broke is asked again. Where it
    does not answer, all its slots are lost, and the engine tries to connect until it comes back. A
    slot that hears nothing for `orphan_timeout` seconds ends itself with all that it started.
    """

    def __init__(
        self,
        post: Callable[[EngineEvent], None],
        *,
        hosts: Sequence[Host],
        ssh: OpenSsh,
        examine: Examine,
        heartbeat: float = 5.0,
        silence: float = 60.0,
        orphan_timeout: float = 60.0,
        checks: GpuChecks | None = None,
    ) -> None:
        self._checks = checks
        self._ssh = ssh
        self._syncs = {host.name: FileSync(host, ssh) for host in hosts}
        self._connections = {
            host.name: HostConnection(
                host, ssh, post, examine, self._abandon, lambda host: self._take_unseen(host.name)
            )
            for host in hosts
        }
        self._provisioning: set[threading.Thread] = set()
        super().__init__(post, heartbeat=heartbeat, silence=silence, orphan_timeout=orphan_timeout)
        for connection in self._connections.values():
            connection.start()

    def hosts(self) -> Sequence[str]:
        return list(self._connections)

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        """Send the request, once the files that it needs are on the slot's host."""
        if (name := self._host_of.get(slot)) is None:
            return  # its end is being posted
        host = self._connections[name].host
        try:
            cell = self._syncs[host.name].located(request.cell)
        except ProvisionFailed as error:
            self._fail(slot, request, error)
            return
        if cell is not None:
            super().run(slot, replace(request, cell=cell))
            return
        self._post(Started(slot=slot, attempt=request.attempt, stage="provision"))
        thread = threading.Thread(
            target=self._provision, args=(slot, host, request), name=f"to {host.name}", daemon=True
        )
        self._provisioning.add(thread)
        thread.start()

    def shutdown(self) -> None:
        for connection in self._connections.values():
            connection.end()
        for sync in self._syncs.values():
            sync.stop()
        super().shutdown()
        for connection in self._connections.values():
            connection.join()
        for thread in list(self._provisioning):
            thread.join()

    def _provision(self, slot: SlotId, host: Host, request: AttemptRequest) -> None:
        try:
            cell = self._syncs[host.name].send(request.cell)
            super().run(slot, replace(request, cell=cell))
        except ProvisionFailed as error:
            self._fail(slot, request, error)
        except Exception as error:  # noqa: BLE001 - nothing else would report it
            self._fail(slot, request, ProvisionFailed(f"sending what it needs failed: {error!r}"))
        finally:
            self._provisioning.discard(threading.current_thread())

    def _fail(self, slot: SlotId, request: AttemptRequest, error: ProvisionFailed) -> None:
        failure = Failure(
            stage="provision",
            kind=error.kind,
            message=str(error),
            retryable=error.kind in ("error", "disk_full"),
        )
        with self._lock:  # so that it never comes after the slot's last event
            if slot in self._slots:
                self._post(Failed(slot=slot, attempt=request.attempt, failure=failure))

    def _spawn(self, spec: SlotSpec) -> tuple[Child, dict[str, Any]]:
        host, key = self._connections[spec.host].host, secrets.token_hex(8)
        create_log(log := Path(spec.log))
        process = SshProcess(spec.slot, self._ssh.argv(host, launch(host)))
        child = Child(spec.slot, process, log=log, key=key, remote=True)
        child.scratch = f"{host.folder}/scratch/{spec.slot}"
        self._host_of[spec.slot] = host.name
        named = host.gpus is not None
        return child, {
            "marker_key": key,
            "scratch": child.scratch,
            "python": spec.python,
            "tells_room": host.cpu_slots == AUTO,
            **gpu_checks(spec, self._checks, named=named),
        }

    def _unseen_exit(self, child: Child, code: int | None) -> SlotLost:
        last, reason = child.last_logged(), exit_reason(code)
        if code == LOST or (code is not None and code < 0):
            why = child.reason or f"its connection broke ({last or reason})"
            return slot_lost(child, why, None, host_lost=True)
        return slot_lost(child, child.reason or (f"{last} ({reason})" if last else reason), code)

    def _doubt(self, host: str) -> None:
        self._connections[host].check()

    def _abandon(self, host: Host, why: str) -> None:
        """End all slots on a host that is lost."""
        self._syncs[host.name].forget()
        self._lose_slots(host.name, why)
