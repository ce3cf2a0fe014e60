"""Offers and orphans, as a user asks for them, against the simulated API over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.cli.main import main
from benchfleet.cli.verbs import sweep_orphans
from benchfleet.domain.rent import ProviderAccess
from benchfleet.domain.rental import CREATED, Rental, rental_event
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.providers.base import GpuOffer, InstanceSpec
from benchfleet.providers.vast import VastProvider
from benchfleet.rentals.accounts import open_provider
from benchfleet.rentals.renting import Limits, Renting
from benchfleet.rentals.stream import RentalStream, random_id
from benchfleet.testing.simulated_cloud import Cloud
from benchfleet.testing.simulated_vast import VastApi, VastServer

KEY = "k3yk3yk3yk3y"
LEDGER = "b" * 10
STUDY = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [mock_benchmark]
"""


@pytest.fixture
def cloud() -> Cloud:
    return Cloud(offers=[offer(11, 400_000), offer(12, 300_000)])


@pytest.fixture
def machines(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An inventory whose provider is the simulated one, in a folder with a campaign."""
    server = VastServer(VastApi(cloud, {KEY: "me"}))
    monkeypatch.setenv("VAST_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(VastProvider, "visible_within_s", 0.3)
    monkeypatch.setattr(sweep_orphans, "_PAUSE_S", 0.1)
    Path("study.yaml").write_text(STUDY)
    file = Path("machines.yaml")
    file.write_text(f"providers: {{vast: {{url: '{server.url}'}}}}\n")
    yield file
    server.close()


def offer(id: int, price: int) -> GpuOffer:
    return GpuOffer(
        provider="vast", id=str(id), machine=f"m{id}", gpu="RTX 4090", count=1, vram=24 << 30,
        price=price, region="Sweden", reliability=0.991,
    )  # fmt: skip


def rental(url: str) -> Rental:
    provider = open_provider(ProviderAccess(name="vast", url=url))
    return Rental(id="aaaaaaaa", account=provider.account(), gpu="RTX 4090", hourly=400_000)


def sweep(*words: str) -> int:
    return main(["sweep-orphans", "study.yaml", "--machines", "machines.yaml", *words])


def test_offers_are_listed_cheapest_first(
    machines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["offers", "--gpu", "RTX 4090", "--machines", str(machines)]
    assert main([*command, "--json"]) == 0
    ids = [one["id"] for one in json.loads(capsys.readouterr().out)["offers"]]
    assert ids == ["12", "11"]
    assert main(command) == 0
    assert "0.300 USD" in capsys.readouterr().out
    assert main([*command, "--max-price", "0.10 USD/h"]) == 1
    assert "nobody offers RTX 4090" in capsys.readouterr().out
    assert main([*command, "--max-price", "cheap"]) == 2
    assert "--max-price" in capsys.readouterr().err


def test_a_key_that_is_absent_or_wrong_is_named_without_it(
    machines: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["offers", "--gpu", "RTX 4090", "--machines", str(machines)]
    monkeypatch.delenv("VAST_API_KEY")
    assert main(command) == 2
    assert "VAST_API_KEY" in capsys.readouterr().err
    monkeypatch.setenv("VAST_API_KEY", "wr0ngwr0ng")
    assert sweep("--yes") == 2
    printed = capsys.readouterr()
    assert "Invalid user key" in printed.err
    assert "wr0ng" not in printed.err + printed.out


def test_what_is_rented_is_returned_and_others_are_left_alone(
    machines: Path, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    url = machines.read_text().split("'")[1]
    used, forgotten = (cloud.add(cloud.offers[0], "", "me") for _ in range(2))
    foreign = cloud.add(cloud.offers[0], f"bf-{'c' * 10}-dddddddd", "me")
    private = cloud.add(cloud.offers[0], "my own pod", "me")
    used.label, forgotten.label = f"bf-{LEDGER}-aaaaaaaa", f"bf-{LEDGER}-eeeeeeee"
    assert main(["run", "study.yaml"]) == 0
    (file,) = Path.cwd().rglob("*.db")
    with closing(SqliteLedger(file, campaign="study")) as ledger:
        first = ledger.record(rental(url).intent(LEDGER), after=0)
        ledger.record(rental_event(CREATED, "aaaaaaaa", instance=used.id), after=first)
    capsys.readouterr()
    assert sweep() == 2  # nobody answers the question
    printed = capsys.readouterr()
    assert "add --yes" in printed.err + printed.out
    assert used.lives
    assert not forgotten.lives  # the ledger does not know it
    assert sweep("--yes") == 0
    assert foreign.label in capsys.readouterr().out
    assert [one.label for one in cloud.living] == [foreign.label, private.label]
    assert sweep("--yes") == 0
    assert "nothing of this campaign is rented" in capsys.readouterr().out


def test_a_rental_from_intent_to_proof_over_http(machines: Path, cloud: Cloud) -> None:
    url = machines.read_text().split("'")[1]
    provider = open_provider(ProviderAccess(name="vast", url=url))
    stream = RentalStream(MemoryLedger(), lambda: cloud.now)
    renting = Renting(
        stream=stream, limits=Limits(), clock=lambda: cloud.now, now=lambda: cloud.now
    )
    one = Rental(id=random_id(), account=provider.account(), hourly=400_000)
    spec = InstanceSpec(label="", image="ubuntu", disk=10**10, public_key="ssh-ed25519 A")
    assert renting.rent(one, provider, cloud.offers[0], spec, count=1) is None
    assert stream.history.rentals[one.id].state == "created"
    another = Rental(id=random_id(), account=provider.account())
    renting.rent(another, provider, cloud.offers[0], spec, count=1)  # one too many
    assert len(cloud.living) == 1
