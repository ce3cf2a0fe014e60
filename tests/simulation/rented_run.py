"""A whole run on rented machines in virtual time.

Real are: the runner, the planner's choice, the manager of rentals with its threads, the plugins of
Vast.ai and TensorDock, the stages of the preparation, and the manifest. Simulated are the HTTP
interfaces of the providers, what SSH finds on a machine, and what slots say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from benchfleet.domain.budget import Budget, Spending
from benchfleet.domain.cell import Cell
from benchfleet.domain.host import Host
from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import KINDS, SUBJECT, Account, Rental, RentalHistory
from benchfleet.engines.base import AttemptRequest
from benchfleet.engines.openssh import LOST
from benchfleet.engines.ssh_command import Answer
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.machines.bootstrap import BootstrapFailed
from benchfleet.providers import tensordock, vast
from benchfleet.providers.base import GpuOffer, Provider
from benchfleet.providers.client import ApiClient
from benchfleet.providers.limiter import Limiter
from benchfleet.providers.secret import Secret
from benchfleet.rentals import prepare, rented_host
from benchfleet.rentals.clocks import Clocks
from benchfleet.rentals.engine import RentedEngine
from benchfleet.rentals.request import RentRequest, Replan
from benchfleet.reports.manifest import EVENTS, Row, manifest
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.run_end import RunEnd
from benchfleet.testing.simulated_cloud import Cloud, CloudInstance
from benchfleet.testing.simulated_http import SimulatedApi
from benchfleet.testing.simulated_tensordock import TensorDockApi
from benchfleet.testing.simulated_vast import VastApi
from simulation.process import VirtualEventQueue
from simulation.rented_machine import EACH_S, Machine, SimulatedSlots, folder_of_keys
from simulation.turns import Gate, Strand, Turns, VirtualEvent
from stage import Stage

BOOT_S, INSTALL_S, ANSWER_S = 60.0, 90.0, 0.5
TRAFFIC = 3 * 10**9  # bytes that the installation pulls
NONE = Pool(devices=(), slots=0)
Troubles = dict[tuple[str, str], list[str]]  # by provider and GPU: of its next machines


@dataclass(frozen=True, kw_only=True)
class Connections:
    """In the place of shared SSH connections."""

    known_hosts: Path
    sockets: Path


class RentedRun:
    """The world of one ledger: its providers, their machines, and runs one after another."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.turns = Turns()
        self.ledger = MemoryLedger(clock=self.turns.now, lease=1e9)
        self.machine_troubles: Troubles = {}
        self.cell_troubles: dict[str, list[str]] = {}  # by cell: of its next attempts
        self.machines: list[Machine] = []
        self.messages: list[str] = []
        self.each_s = EACH_S  # that a sample takes
        self.injected: Counter[str] = Counter()
        self._strands: list[Strand] = []
        self.clouds = {name: Cloud(now=self._provider_time()) for name in ("vast", "tensordock")}
        self._apis = {
            name: api(
                self.clouds[name], {"key": "me"}, clock=self._provider_time, created=self._created
            )
            for name, api in (("vast", VastApi), ("tensordock", TensorDockApi))
        }
        self._fake_ssh(monkeypatch)

    # The providers

    def _provider_time(self) -> float:
        return float(math.floor(self.turns.now()))  # their answers have whole seconds

    def accounts(self) -> dict[Account, Provider]:
        """The accounts of one process: each keeps its distance from its own requests."""
        providers = [self._provider(name, api) for name, api in self._apis.items()]
        return {provider.account(): provider for provider in providers}

    def _provider(self, name: str, api: SimulatedApi) -> Provider:
        def answered(request: httpx2.Request) -> httpx2.Response:
            self.wait(ANSWER_S)
            target = request.url.raw_path.decode()
            status, headers, body = api.answer(
                request.method, target, dict(request.headers), request.content
            )
            return httpx2.Response(status, headers=headers, content=body)

        plugin = {"vast": vast, "tensordock": tensordock}[name]
        client = ApiClient(
            "https://provider.test",
            Secret("key"),
            Limiter(plugin.INTERVALS, clock=self.turns.now, sleep=self.wait),
            transport=httpx2.MockTransport(answered),
            sleep=self.wait,
        )
        kind = {"vast": vast.VastProvider, "tensordock": tensordock.TensorDockProvider}[name]
        return kind(client)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.turns.wait_until(self.turns.now() + seconds)

    def _created(self, one: CloudInstance, body: Mapping[str, Any]) -> None:
        cloud = "vast" if "onstart" in body else "tensordock"
        waiting = self.machine_troubles.get((cloud, one.offer.gpu)) or [""]
        trouble = waiting.pop(0)
        self.injected[trouble] += 1
        one.state, one.port = "starting", 20_000 + len(self.machines)
        if trouble == "price_rose":
            one.offer = replace(one.offer, price=9_000_000)
        machine = Machine(one, self.turns.now(), "armed" in str(body.get("onstart")), trouble)
        self.machines.append(machine)
        if trouble != "never_runs":
            state = "stopped" if trouble == "stopped" else "running"
            self.turns.later(BOOT_S, lambda: setattr(one, "state", state))

    def offer(
        self, cloud: str, id: int, gpu: str, vram: int, price: int, transfer: int = 0
    ) -> None:
        """Offer a machine: its memory in GiB, its price in millionths an hour, or for a GB."""
        self.clouds[cloud].offers.append(
            GpuOffer(
                provider=cloud, id=str(id), machine=f"m{id}", gpu=gpu, count=1, vram=vram << 30,
                price=price, transfer_price=transfer, region=f"place {id}", reliability=0.99,
            )
        )  # fmt: skip

    # The machines

    def _fake_ssh(self, monkeypatch: pytest.MonkeyPatch) -> None:
        @contextmanager
        def connections(known_hosts: Path) -> Iterator[Connections]:
            yield Connections(known_hosts=known_hosts, sockets=self.folder)

        def bootstrap(host: Host, spec: Any, **_: Any) -> None:
            self.wait(INSTALL_S)
            self._machine(host).one.traffic = TRAFFIC
            if self._machine(host).trouble == "no_install":
                raise BootstrapFailed("pip cannot reach its index")

        def slots(post: Any, *, hosts: Sequence[Host], **_: Any) -> SimulatedSlots:
            (host,) = hosts
            machine = self._machine(host)
            return SimulatedSlots(post, self.turns, machine, host, self._trouble_of, self.each_s)

        for module in (prepare, rented_host):
            monkeypatch.setattr(module, "ask", self._ask)
        monkeypatch.setattr(prepare, "bootstrap", bootstrap)
        monkeypatch.setattr(prepare, "running_wheel", lambda: None)
        monkeypatch.setattr(prepare, "EnvironmentSpec", lambda **_: None)
        monkeypatch.setattr(rented_host, "connections", connections)
        monkeypatch.setattr(rented_host, "SshEngine", slots)

    def _machine(self, host: Host) -> Machine:
        return self.machines[(host.port or 0) - 20_000]

    def _ask(self, ssh: Any, host: Host, words: Sequence[str], **_: Any) -> Answer:
        self.wait(ANSWER_S)
        machine = self._machine(host)
        assert machine.one.lives or machine.answer(words, self.turns.now()).code == LOST
        return machine.answer(words, self.turns.now())

    def _trouble_of(self, request: AttemptRequest) -> str:
        name = f"{request.cell.model.name} {request.cell.id.rpartition('+')[2]}"
        waiting = self.cell_troubles.get(name) or [""]
        trouble = waiting.pop(0)
        self.injected[trouble] += 1
        return trouble

    # The runs

    def clocks(self, gate: Gate) -> Clocks:
        """Virtual ones."""

        def thread(target: Callable[[], None], name: str) -> Strand:
            self._strands.append(self.turns.strand(gate, target, name))
            return self._strands[-1]

        return Clocks(
            since_boot=self.turns.now,
            now=self.turns.now,
            event=lambda: VirtualEvent(self.turns),
            thread=thread,
        )

    def begin(self, *args: Any, **options: Any) -> Strand:
        """A run beside those that follow."""
        gate = Gate()

        def work() -> None:
            self._run(gate, *args, **options)

        run = self.turns.strand(gate, work, "run")
        self._strands.append(run)
        run.start()
        return run

    def run_until(self, reached: Callable[[], bool], *args: Any, **options: Any) -> None:
        """A run that is killed once something is reached; its machines go on."""
        run = self.begin(*args, **options)
        while not reached():
            assert not run.over, "it ended by itself"
            self.wait(5.0)
        run.gate.dead = True
        for strand in self._strands:
            self.turns.wake(strand)
        for machine in self.machines:
            if machine.slots is not None:
                machine.slots.post = lambda event: None

    def run(
        self,
        cells: Sequence[Cell],
        entries: Sequence[RentEntry],
        **options: Any,
    ) -> tuple[RunEnd, RentRequest]:
        """A run from its first offer to the proof; what it asked for says what remains."""
        return self._run(Gate(), cells, entries, **options)

    def _run(
        self,
        gate: Gate,
        cells: Sequence[Cell],
        entries: Sequence[RentEntry],
        *,
        budget: float | None = None,
        owner: str = "me",
        is_owner_dead: Callable[[Rental], bool | None] = lambda rental: False,
        replan: Replan | None = None,
    ) -> tuple[RunEnd, RentRequest]:
        spending = Spending()
        keys = self.folder / owner
        request = RentRequest(
            entries=tuple(entries),
            providers=(),
            folder=keys if keys.exists() else folder_of_keys(keys),
            owner=owner,
            process={"pid": owner},
            is_owner_dead=is_owner_dead,
            budget=None if budget is None else round(budget * 1e6),
            spending=spending,
            replan=replan,
            tell=self.messages.append,
        )
        stage = Stage(self.folder / "results", clock=self.turns.clock, name=owner)
        stage.ledger = self.ledger
        stage.inbox = VirtualEventQueue(self.turns, lambda what: None)  # type: ignore[assignment]
        if budget is not None:
            stage.budget = Budget(amount=budget, currency="USD", spending=spending)
        clocks = self.clocks(gate)
        engine = RentedEngine(stage.inbox.post, request, self.ledger, self.accounts(), clocks)
        stage.engine = engine  # type: ignore[assignment]
        end = stage.run(cells, NONE)
        engine.await_end(self._waited)
        assert not self.turns.errors, self.turns.errors
        self.notices = stage.notices
        return end, request

    def _waited(self) -> bool:
        self.wait(5.0)
        return False

    def history(self) -> RentalHistory:
        """The rentals in the ledger."""
        return RentalHistory(self.ledger.events(fingerprints=[SUBJECT], kinds=KINDS))

    def manifest(self) -> list[Row]:
        """The rows of the manifest."""
        records = self.ledger.cells(with_cell=True)
        return manifest(self.ledger.events(kinds=EVENTS), records, self.history())

    def living(self) -> list[CloudInstance]:
        """What is billed now, at all providers."""
        return [one for cloud in self.clouds.values() for one in cloud.living]
