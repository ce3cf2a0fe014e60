"""A campaign and an inventory whose provider is the simulated Vast.ai, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from benchfleet.cli.verbs import return_machines, sweep_orphans
from benchfleet.domain.rent import ProviderAccess
from benchfleet.domain.rental import CREATED, Rental, rental_event
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.providers.base import GpuOffer
from benchfleet.providers.vast import VastProvider
from benchfleet.rentals.accounts import open_provider
from benchfleet.testing.simulated_cloud import Cloud
from benchfleet.testing.simulated_http import ApiServer
from benchfleet.testing.simulated_vast import VastApi

KEY = "k3yk3yk3yk3y"
LEDGER = "b" * 10
STUDY = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [mock_benchmark]
"""


@contextmanager
def vast_account(cloud: Cloud, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An inventory whose provider is the simulated one, in a folder with a campaign."""
    server = ApiServer(VastApi(cloud, {KEY: "me"}))
    monkeypatch.setenv("VAST_API_KEY", KEY)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(VastProvider, "visible_within_s", 0.3)
    monkeypatch.setattr(sweep_orphans, "_PAUSE_S", 0.1)
    monkeypatch.setattr(return_machines, "_PAUSE_S", 0.1)
    Path("study.yaml").write_text(STUDY)
    file = Path("machines.yaml")
    file.write_text(f"providers: {{vast: {{url: '{server.url}'}}}}\n")
    yield file
    server.close()


def offer(id: int, price: int) -> GpuOffer:
    """An RTX 4090 at a price an hour."""
    return GpuOffer(
        provider="vast", id=str(id), machine=f"m{id}", gpu="RTX 4090", count=1, vram=24 << 30,
        price=price, region="Sweden", reliability=0.991,
    )  # fmt: skip


def rental(url: str) -> Rental:
    """A rental at the provider at this address."""
    provider = open_provider(ProviderAccess(name="vast", url=url))
    return Rental(id="aaaaaaaa", account=provider.account(), gpu="RTX 4090", hourly=400_000)


def record_created(rentals: dict[str, Rental]) -> None:
    """Record rentals by instance in the only ledger below the folder."""
    (file,) = Path.cwd().rglob("*.db")
    with closing(SqliteLedger(file, campaign="study")) as ledger:
        last = 0
        for instance, one in rentals.items():
            last = ledger.record(one.intent(LEDGER), after=last)
            last = ledger.record(rental_event(CREATED, one.id, instance=instance), after=last)
