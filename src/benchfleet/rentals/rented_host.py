"""One rented instance as a host: prepared in a thread, then connected to by `SshEngine`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

from benchfleet.domain.host import Host
from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import Rental
from benchfleet.domain.usage import Price
from benchfleet.engines.base import Engine, Post
from benchfleet.engines.openssh import connections
from benchfleet.engines.ssh import SshEngine
from benchfleet.engines.ssh_command import ask
from benchfleet.errors import BenchfleetError
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.providers.base import Instance
from benchfleet.providers.dead_man import FOLDER
from benchfleet.rentals.prepare import Preparation, PrepareFailed, RentedSsh

ALIVE_S = 60.0  # between two signs of life for the dead-man timer
_ALIVE = ["sh", "-c", f"mkdir -p {FOLDER} && date +%s%N > {FOLDER}/alive"]


class RentedHost:
    """Prepares one instance, serves its slots, and ends.

    `ready` is called once slots may be opened, `failed` with the failure otherwise; both from the
    host's own thread.
    """

    def __init__(
        self,
        *,
        rental: Rental,
        instance: Instance,
        entry: RentEntry,
        key: Path,
        folder: Path,
        post: Post,
        ready: Callable[[RentedHost], None],
        failed: Callable[[RentedHost, dict[str, str]], None],
    ) -> None:
        self.rental, self.instance, self.entry = rental, instance, entry
        self.name = f"{entry.name}-{rental.id}"
        self.engine: Engine | None = None
        self._key, self._folder, self._post = key, folder, post
        self._ready, self._failed = ready, failed
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Begin to prepare it."""
        self._thread.start()

    def end(self) -> None:
        """End its slots and connections; nothing of it is left here when this returns."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.ExitStack() as connected:
            shared = connected.enter_context(connections(self._folder / "known_hosts"))
            ssh = RentedSsh(known_hosts=shared.known_hosts, sockets=shared.sockets)
            try:
                self._prepare_and_serve(ssh)
            except PrepareFailed as error:
                if not self._ending.is_set():
                    self._failed(self, error.to_dict())
            except Exception as error:  # noqa: BLE001 - it must be returned, whatever it was
                message = str(error) if isinstance(error, BenchfleetError) else repr(error)
                self._failed(self, {"stage": "prepare", "kind": "error", "message": message})

    def _prepare_and_serve(self, ssh: RentedSsh) -> None:
        host = Preparation(
            host=self._host(),
            entry=self.entry,
            ssh=ssh,
            vram=self.rental.vram,
            stopping=self._ending,
        ).run()
        if self._ending.is_set():
            return
        self._ready(self)
        engine = SshEngine(self._post, hosts=[host], ssh=ssh, examine=capacity_from_facts)
        self.engine = engine
        while True:
            with contextlib.suppress(BenchfleetError):  # the timer is patient for many minutes
                ask(ssh, host, _ALIVE)
            if self._ending.wait(ALIVE_S):
                break
        engine.shutdown()

    def _host(self) -> Host:
        rental, instance = self.rental, self.instance
        labels = frozenset({"rented", rental.account.provider, self.entry.name})
        price = Price(amount=rental.hourly / 1e6, currency=rental.currency)
        return Host(
            name=self.name,
            address=instance.address,
            port=instance.port,
            user=instance.user,
            identity=str(self._key),
            python=self.entry.python,
            cpu_slots=self.entry.cpu_slots,
            price=price,
            labels=labels,
        )
