"""Slots on other machines: the same slot program, behind the OpenSSH client."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchfleet.domain.failure import Failure
from benchfleet.domain.host import AUTO, Host
from benchfleet.domain.resource import GpuChecks
from benchfleet.engines.base import (
    EngineEvent,
    Failed,
    Order,
    SlotId,
    SlotLost,
    SlotSpec,
    Started,
)
from benchfleet.engines.cargo import Courier, NotDelivered
from benchfleet.engines.channels import ChannelEngine
from benchfleet.engines.child import Child
from benchfleet.engines.commands import launch
from benchfleet.engines.ends import ending, lost
from benchfleet.engines.links import Examine, Link
from benchfleet.engines.openssh import LOST, OpenSsh
from benchfleet.engines.wire import fitness


class SshEngine(ChannelEngine):
    """Opens slots on hosts; see `benchfleet.engines.base` for the contract.

    Every host has its `python`, with the same benchfleet as here. What a cell needs of this
    machine's files is brought to its host first (`cargo`). A host whose connection broke is asked
    again; where it does not answer all its slots are lost, and it is reached for until it comes
    back. A slot that hears nothing for `patience` seconds ends itself with all that it started.
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
        patience: float = 60.0,
        checks: GpuChecks | None = None,
    ) -> None:
        self._checks = checks
        self._ssh = ssh
        self._where: dict[SlotId, Host] = {}
        self._unseen: dict[str, list[SlotId]] = {host.name: [] for host in hosts}
        self._couriers = {host.name: Courier(host, ssh) for host in hosts}
        self._links = {
            host.name: Link(host, ssh, post, examine, self._abandon, self._forgotten)
            for host in hosts
        }
        self._deliveries: set[threading.Thread] = set()
        super().__init__(post, heartbeat=heartbeat, silence=silence, patience=patience)
        for link in self._links.values():
            link.start()

    def hosts(self) -> Sequence[str]:
        return list(self._links)

    def run(self, slot: SlotId, order: Order) -> None:
        """Hand the order over, once what it needs is on the slot's host."""
        host = self._where.get(slot)
        if host is None:
            return  # its end is being told
        try:
            cell = self._couriers[host.name].known(order.cell)
        except NotDelivered as error:
            self._refuse(slot, order, error)
            return
        if cell is not None:
            super().run(slot, replace(order, cell=cell))
            return
        self._post(Started(slot=slot, attempt=order.attempt, stage="provision"))
        delivery = threading.Thread(
            target=self._deliver, args=(slot, host, order), name=f"to {host.name}", daemon=True
        )
        self._deliveries.add(delivery)
        delivery.start()

    def shutdown(self) -> None:
        for link in self._links.values():
            link.end()
        for courier in self._couriers.values():
            courier.stop()
        super().shutdown()
        for link in self._links.values():
            link.join()
        for delivery in list(self._deliveries):
            delivery.join()

    def _deliver(self, slot: SlotId, host: Host, order: Order) -> None:
        try:
            cell = self._couriers[host.name].deliver(order.cell)
            super().run(slot, replace(order, cell=cell))
        except NotDelivered as error:
            self._refuse(slot, order, error)
        except Exception as error:  # noqa: BLE001 - nobody else would ever tell of it
            self._refuse(slot, order, NotDelivered(f"sending what it needs failed: {error!r}"))
        finally:
            self._deliveries.discard(threading.current_thread())

    def _refuse(self, slot: SlotId, order: Order, error: NotDelivered) -> None:
        failure = Failure(
            stage="provision", kind=error.kind, message=str(error), retryable=error.kind == "error"
        )
        with self._lock:  # so that it never comes after the slot's last event
            if slot in self._slots:
                self._post(Failed(slot=slot, attempt=order.attempt, failure=failure))

    def _start(self, spec: SlotSpec) -> tuple[Child, dict[str, Any]]:
        host, key = self._links[spec.host].host, secrets.token_hex(8)
        words = self._ssh.argv(host, launch(host))
        child = Child(spec.slot, words, log=Path(spec.log), key=key, far=True)
        child.scratch = f"{host.folder}/scratch/{spec.slot}"
        self._where[spec.slot] = host
        named = host.gpus is not None
        return child, {
            "mark": key,
            "scratch": child.scratch,
            "python": spec.python,
            "tells_room": host.cpu_slots == AUTO,
            **fitness(spec, self._checks, named=named),
        }

    def _order(self, child: Child, order: Order) -> dict[str, Any]:
        child.orders += 1
        child.attempt, child.printing_to = order.attempt, Path(order.log)
        scratch = f"{child.scratch}/{child.orders}"
        return {"cell": order.cell.to_dict(), "log": "", "scratch": scratch}

    def _epitaph(self, child: Child, code: int | None) -> SlotLost:
        """Its supervisor told how it ended, or nobody knows."""
        if child.ended is not None:
            code = os.waitstatus_to_exitcode(child.ended)
            return lost(child, child.complaint or ending(code), code)
        words = child.last_words()
        if code == LOST or (code is not None and code < 0):
            why = child.complaint or f"its connection broke ({words or ending(code)})"
            return lost(child, why, None, host_lost=True)
        said = f"{words} ({ending(code)})" if words else ending(code)
        return lost(child, child.complaint or said, code)

    def _miss(self, child: Child) -> None:
        """Ask its host, since it may be the connection that is silent; see `_forgotten`."""
        if child.greeted and not child.missed:
            child.missed = True
            self._links[self._where[child.id].name].doubt()

    def _buried(self, child: Child) -> None:
        host = self._where.pop(child.id)
        if child.ended is None:
            self._unseen[host.name].append(child.id)
            self._links[host.name].doubt()

    def _abandon(self, host: Host, why: str) -> None:
        """End what is open on a host that is lost, and wait until all of it is told."""
        self._couriers[host.name].forget()
        with self._lock:
            for slot, where in list(self._where.items()):
                if where.name == host.name and (child := self._slots.get(slot)):
                    child.complaint = child.complaint or f"its host was lost: {why}"
                    self._end(child)
                    child.end_by_force()
        while any(where.name == host.name for where in list(self._where.values())):
            time.sleep(0.01)

    def _forgotten(self, host: Host) -> list[SlotId]:
        """The slots whose end nobody saw since it was asked before, and those that are silent
        though their host answers."""
        with self._lock:
            unseen, self._unseen[host.name] = self._unseen[host.name], []
            for slot, where in list(self._where.items()):
                child = self._slots.get(slot)
                if child and child.missed and where.name == host.name:
                    child.missed = False
                    if self._is_missing(child):
                        child.take_cause("stuck silent, its supervisor too, on a host that answers")
                        self._end(child)
                        unseen.append(slot)
        return unseen
