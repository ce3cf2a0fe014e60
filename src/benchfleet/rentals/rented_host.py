"""One rented instance as a host: prepared in a thread, then connected to by `SshEngine`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchfleet.domain.failure import Failure
from benchfleet.domain.hardware import MachineHardware
from benchfleet.domain.host import Host
from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import Rental
from benchfleet.domain.usage import Price
from benchfleet.engines.base import Engine, EngineEvent, Failed, HostReady, Post, SlotLost
from benchfleet.engines.openssh import connections
from benchfleet.engines.ssh import SshEngine
from benchfleet.engines.ssh_command import ask
from benchfleet.errors import BenchfleetError
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.providers.base import Instance
from benchfleet.providers.dead_man import FOLDER
from benchfleet.rentals.clocks import Clocks
from benchfleet.rentals.host_usage import HostUsage
from benchfleet.rentals.prepare import Preparation, PrepareFailed, PrepareStage, RentedSsh
from benchfleet.rentals.stage_limits import StageLimits

ALIVE_EVERY_S = 60.0  # between two signs of life for the dead-man timer
ALIVE = ["sh", "-c", f"mkdir -p {FOLDER} && date +%s%N > {FOLDER}/alive; cat /proc/net/dev"]
_RECEIVED, _SENT = 0, 8  # columns of bytes in /proc/net/dev
_STEPS: Mapping[PrepareStage, str] = {
    "ssh_wait": "waiting for SSH",
    "hardware": "its hardware is checked",
    "dead_man": "waiting for its dead-man timer",
    "bootstrap": "benchfleet is installed",
}
_LAST_S = 10.0  # for the last reading of its traffic


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
        limits: StageLimits,
        key: Path,
        folder: Path,
        post: Post,
        ready: Callable[[RentedHost], None],
        failed: Callable[[RentedHost, dict[str, str]], None],
        clocks: Clocks,
    ) -> None:
        self.rental, self.instance, self.entry = rental, instance, entry
        self.name = rental.host
        self.engine: Engine | None = None
        self.facts: Mapping[str, Any] = {}  # of the machine, once it is ready
        self.step = ""  # of its preparation, for people
        self.traffic = 0  # bytes to and from it, as last read
        self.usage = HostUsage(clocks.since_boot)
        self._limits, self._key, self._folder, self._post = limits, key, folder, post
        self._ready, self._failed = ready, failed
        self._clocks = clocks
        self._ending = clocks.event()
        self._thread = clocks.thread(self._run, self.name)

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
                self._read_traffic(ssh)
                if not self._ending.is_set():
                    self._failed(self, error.to_dict())
            except Exception as error:  # noqa: BLE001 - it must be returned, whatever it was
                message = str(error) if isinstance(error, BenchfleetError) else repr(error)
                self._failed(self, {"stage": "prepare", "kind": "error", "message": message})

    def _prepare_and_serve(self, ssh: RentedSsh) -> None:
        preparation = Preparation(
            host=self._host(),
            entry=self.entry,
            limits=self._limits,
            ssh=ssh,
            vram=self.rental.vram,
            stopping=self._ending,
            clock=self._clocks.since_boot,
            begin=self._begin,
        )
        host = preparation.run()
        self.facts = preparation.facts
        if self._ending.is_set():
            return
        self._ready(self)
        engine = SshEngine(self._pass_on, hosts=[host], ssh=ssh, examine=capacity_from_facts)
        self.engine = engine
        while True:
            self._sign(ssh, host)
            if self._ending.wait(ALIVE_EVERY_S):
                break
        engine.shutdown()
        self._read_traffic(ssh)

    def _begin(self, stage: PrepareStage) -> None:
        self.step = _STEPS[stage]

    def _read_traffic(self, ssh: RentedSsh) -> None:
        """Read its traffic for the last time, if that costs something."""
        if self.rental.transfer:
            self._sign(ssh, self._host(), timeout=_LAST_S)

    def _sign(self, ssh: RentedSsh, host: Host, timeout: float = ALIVE_EVERY_S) -> None:
        """Give a sign of life, and read how much traffic there was."""
        with contextlib.suppress(BenchfleetError):  # the timer is patient for many minutes
            answer = ask(ssh, host, ALIVE, timeout=timeout)
            self.traffic = max(self.traffic, traffic_of(answer.out))

    def _pass_on(self, event: EngineEvent) -> None:
        """Pass it on; of the host, with what it was rented as, as a provider names its GPU."""
        if isinstance(event, HostReady):
            rental = self.rental
            hardware = MachineHardware(
                gpus=(rental.gpu,) * self.entry.gpus,
                memory=rental.vram,
                provider=rental.account.provider,
            )
            event = replace(event, rented=hardware)
        if isinstance(event, Failed):
            event = replace(event, failure=without_token_advice(event.failure))
        if self._ending.is_set() and isinstance(event, SlotLost):
            event = replace(event, host_lost=True, expected=False)  # no fault of its cell
        self._post(event)  # first: the runner is to know of the host before others see it
        self.usage.follow(event)

    def _host(self) -> Host:
        rental, instance = self.rental, self.instance
        labels = frozenset({"rented", rental.account.provider, self.entry.name})
        price = Price(amount=rental.hourly / 1e6, currency=rental.currency)
        return Host(
            name=self.name,
            address=instance.address,
            port=instance.port,
            user=self.entry.user or instance.user,
            identity=str(self._key),
            python=self.entry.python,
            cpu_slots=self.entry.cpu_slots,
            price=price,
            labels=labels,
        )


def without_token_advice(failure: Failure) -> Failure:
    """The failure of a pull, without the advice to set a token: a rented machine gets none."""
    if failure.stage != "pull" or "HF_TOKEN" not in failure.message:
        return failure
    what, *_ = re.split("[:;] ", failure.message)
    advice = (
        "A rented machine gets no token of the hub: download the model here, as a user who has "
        "access, and name its folder in the campaign; it is sent to the machine"
    )
    return replace(failure, message=f"{what}. {advice}")


def traffic_of(text: str) -> int:
    """Bytes received and sent, as /proc/net/dev has them by interface; its own traffic left out."""
    rows = [line.partition(":") for line in text.splitlines()]
    counted = [numbers.split() for name, _, numbers in rows if numbers and name.strip() != "lo"]
    return sum(
        int(row[_RECEIVED]) + int(row[_SENT])
        for row in counted
        if len(row) > _SENT and row[_RECEIVED].isdecimal() and row[_SENT].isdecimal()
    )
