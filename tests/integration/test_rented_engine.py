"""What an engine of rented machines says of hosts before the first of them is here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.host import Host
from benchfleet.domain.rent import ProviderAccess, RentEntry
from benchfleet.engines.base import EngineEvent, HostAwaited, HostLost
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.providers.base import GpuOffer, ProviderAway, Want
from benchfleet.providers.vast import VastProvider
from benchfleet.rentals.engine import RentedEngine
from benchfleet.rentals.prepare import Preparation
from benchfleet.rentals.request import RentRequest
from benchfleet.runner.events import EventQueue
from benchfleet.testing.simulated_cloud import Cloud
from benchfleet.testing.simulated_vast import VastApi, VastServer
from sshd import need_sshd


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A provider with one offer."""
    need_sshd()
    monkeypatch.setenv("VAST_API_KEY", "key")
    offer = GpuOffer(
        provider="vast", id="1", machine="m1", gpu="RTX 4090", count=1, vram=24 << 30, price=300_000
    )
    server = VastServer(VastApi(Cloud(offers=[offer]), clock=time.time))
    yield server.url
    server.close()


def engine_of(url: str, folder: Path, posted: EventQueue, **changes: Any) -> RentedEngine:
    entry = RentEntry(name="r4090", gpu="RTX 4090", providers=("vast",), needs_dead_man=False)
    access = ProviderAccess(name="vast", url=url, visible_within=0.3)
    request = RentRequest(entries=(entry,), providers=(access,), folder=folder, **changes)
    return RentedEngine(posted.post, request, MemoryLedger())


def next_of(posted: EventQueue, kind: type[EngineEvent]) -> Any:
    """The next event of this kind, which must come."""
    for _ in range(20):
        if isinstance(event := posted.take(10), kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")


def test_a_runner_that_asks_late_still_waits_for_the_reason(url: str, tmp_path: Path) -> None:
    posted = EventQueue()
    engine = engine_of(url, tmp_path, posted, budget=0)
    assert next_of(posted, HostLost).reason == "the budget allows no further machine"
    assert engine.hosts() == ["r4090"]  # the runner asks once, maybe only now
    engine.shutdown()
    engine.await_end(lambda: False)
    assert not engine._request.remaining


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
    assert not engine._manager.is_alive()
    assert not engine._request.remaining


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
