"""What an engine of rented machines says of hosts before the first of them is here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.budget import Spending
from benchfleet.domain.host import Host
from benchfleet.domain.rent import ProviderAccess, RentEntry
from benchfleet.domain.resource import Need
from benchfleet.engines.base import EngineEvent, HostAwaited, HostLost, HostReady, SlotId
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.providers.base import GpuOffer, NotAuthorized, ProviderAway, Want
from benchfleet.providers.vast import VastProvider
from benchfleet.rentals.accounts import open_accounts
from benchfleet.rentals.engine import RentedEngine
from benchfleet.rentals.prepare import Preparation
from benchfleet.rentals.request import RentRequest
from benchfleet.runner.events import EventQueue
from benchfleet.testing.simulated_cloud import Cloud
from benchfleet.testing.simulated_http import ApiServer
from benchfleet.testing.simulated_vast import VastApi
from sshd import need_sshd


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A provider with one offer."""
    need_sshd()
    monkeypatch.setenv("VAST_API_KEY", "key")
    offer = GpuOffer(
        provider="vast", id="1", machine="m1", gpu="RTX 4090", count=1, vram=24 << 30, price=300_000
    )
    server = ApiServer(VastApi(Cloud(offers=[offer]), clock=time.time))
    yield server.url
    server.close()


def engine_of(
    url: str, folder: Path, posted: EventQueue, *, waiting: int = 1, **changes: Any
) -> RentedEngine:
    entry = RentEntry(name="r4090", gpu="RTX 4090", providers=("vast",), needs_dead_man=False)
    access = ProviderAccess(name="vast", url=url, visible_within=0.3)
    request = RentRequest(entries=(entry,), providers=(access,), folder=folder, **changes)
    engine = RentedEngine(posted.post, request, MemoryLedger(), open_accounts(request.providers))
    engine.expect({Need(gpus=1): waiting})
    return engine


def next_of(posted: EventQueue, kind: type[EngineEvent]) -> Any:
    """The next event of this kind, which must come."""
    for _ in range(20):
        if isinstance(event := posted.take(10), kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


def test_a_runner_that_asks_late_still_waits_for_the_reason(url: str, tmp_path: Path) -> None:
    posted = EventQueue()
    engine = engine_of(url, tmp_path, posted, budget=0)
    why = "for one of 0.300 USD/h 0.345 USD is reserved, and 0.000 USD is left; raise --budget"
    assert next_of(posted, HostLost).reason == f"the budget allows no further machine: {why}"
    assert engine.hosts() == ["r4090"]  # the runner asks once, maybe only now
    engine.shutdown()
    engine.await_end(lambda: False)
    assert not engine._manager.proof.request.remaining


@pytest.mark.parametrize(("seconds", "is_rented"), [(0.0, True), (60.0, True), (7200.0, False)])
def test_a_machine_is_rented_only_if_the_shortest_cell_fits_the_budget(
    url: str, tmp_path: Path, seconds: float, is_rented: bool
) -> None:
    posted = EventQueue()
    spending = Spending(shortest={Need(gpus=1): seconds})
    engine = engine_of(url, tmp_path, posted, budget=500_000, spending=spending)
    if is_rented:
        while "a rented machine is being prepared" not in next_of(posted, HostAwaited).reason:
            pass
    else:
        assert "the budget allows no further machine" in next_of(posted, HostLost).reason
    engine.shutdown()
    assert len(engine._manager.stream.read().rentals) == is_rented


def test_what_goes_wrong_with_a_machine_returns_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Preparation) -> Host:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(Preparation, "run", broken)
    posted = EventQueue()
    engine = engine_of(url, tmp_path, posted)
    lost = next_of(posted, HostLost)
    assert lost.host.startswith("r4090-")
    assert "no such thing" in lost.reason
    engine.await_end(lambda: False)  # a run that failed did not shut it down
    assert not engine._manager.thread.is_alive()
    assert not engine._manager.proof.request.remaining


def test_a_provider_that_is_away_is_named_while_it_is_waited_for(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: VastProvider, want: Want) -> list[GpuOffer]:
        raise ProviderAway("vast did not answer")

    monkeypatch.setattr(VastProvider, "offers", away)
    posted = EventQueue()
    engine = engine_of(url, tmp_path, posted)
    assert next_of(posted, HostAwaited).reason == "vast did not answer"
    engine.shutdown()


def test_nothing_is_rented_while_no_cell_waits(url: str, tmp_path: Path) -> None:
    posted = EventQueue()
    engine = engine_of(url, tmp_path, posted, waiting=0)
    assert next_of(posted, HostAwaited).reason == "a machine is rented once cells wait for it"
    assert not engine._manager.stream.read().rentals
    engine.expect({Need(gpus=1): 1})
    assert (
        "looked for" in next_of(posted, HostAwaited).reason or engine._manager.stream.read().rentals
    )
    engine.shutdown()
    engine.await_end(lambda: False)


def test_a_refused_key_ends_the_search_at_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: VastProvider, want: Want) -> list[GpuOffer]:
        raise NotAuthorized("the key was revoked")

    monkeypatch.setattr(VastProvider, "offers", refused)
    posted = EventQueue()
    engine = engine_of(url, tmp_path, posted)
    lost = next_of(posted, HostLost)
    assert lost.hopeless
    assert lost.failure is not None
    assert (lost.failure.kind, lost.failure.message) == ("wrong_key", "the key was revoked")
    engine.shutdown()


def test_the_runner_waits_for_an_entry_until_it_knows_the_host(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between 'ready' in the ledger and the host's first word no other machine may be there."""
    connecting = threading.Event()

    class Silent:
        def __init__(self, post: Any, **options: Any) -> None:
            self.post, (self.host,) = post, options["hosts"]
            engines.append(self)
            connecting.set()

        def slots(self) -> list[SlotId]:
            return []

        def shutdown(self) -> None: ...

    engines: list[Silent] = []
    monkeypatch.setattr(Preparation, "run", lambda self: self.host)
    monkeypatch.setattr("benchfleet.rentals.rented_host.SshEngine", Silent)
    monkeypatch.setattr("benchfleet.rentals.manager.TURN_S", 0.05)
    posted = EventQueue()
    engine = engine_of(url, tmp_path, posted)
    assert connecting.wait(60)
    (rental,) = engine._manager.stream.history.rentals.values()
    assert rental.state == "ready"
    for _ in range(3):  # turns
        while isinstance(event := posted.take(0.3), HostAwaited):
            pass
        assert event is None
    (silent,) = engines
    silent.post(HostReady(host=silent.host.name, devices=(), slots=0, threads=1))
    assert next_of(posted, HostReady).host == silent.host.name
    assert next_of(posted, HostLost).reason == "all are here"
    engine.shutdown()
    engine.await_end(lambda: False)
