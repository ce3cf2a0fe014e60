"""What an engine of rented machines says of hosts before the first of them is here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchfleet.domain.rent import ProviderAccess, RentEntry
from benchfleet.engines.base import EngineEvent, HostLost
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.rentals.engine import RentedEngine
from benchfleet.rentals.request import RentRequest
from benchfleet.runner.events import EventQueue
from benchfleet.testing.simulated_cloud import Cloud
from benchfleet.testing.simulated_vast import VastApi, VastServer
from sshd import need_sshd


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A provider that has nothing to offer."""
    need_sshd()
    monkeypatch.setenv("VAST_API_KEY", "key")
    server = VastServer(VastApi(Cloud()))
    yield server.url
    server.close()


def test_a_runner_that_asks_late_still_waits_for_the_reason(url: str, tmp_path: Path) -> None:
    entry = RentEntry(name="r4090", gpu="RTX 4090", providers=("vast",), needs_dead_man=False)
    request = RentRequest(
        entries=(entry,),
        providers=(ProviderAccess(name="vast", url=url),),
        folder=tmp_path,
        budget=0,
    )
    posted: EventQueue = EventQueue()
    events: list[EngineEvent] = []
    engine = RentedEngine(posted.post, request, MemoryLedger())
    engine._give_up(engine._entries[0], "the budget allows no further machine")
    assert engine.hosts() == ["r4090"]  # the runner asks once, maybe only now
    while not any(isinstance(event, HostLost) for event in events):
        events.append(posted.take(10))  # type: ignore[arg-type]
    engine.shutdown()
    engine.await_end(lambda: False)
    assert not request.remaining
