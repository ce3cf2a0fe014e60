"""Offers and orphans, as a user asks for them, against the simulated API over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchfleet.cli.main import main
from benchfleet.domain.rent import ProviderAccess
from benchfleet.domain.rental import Rental
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.providers import client
from benchfleet.providers.base import GpuOffer, InstanceSpec, Want
from benchfleet.providers.vast import VastProvider
from benchfleet.rentals.accounts import open_provider
from benchfleet.rentals.renting import Limits, Renting
from benchfleet.rentals.stream import RentalStream, random_id
from benchfleet.runs.process import Process
from benchfleet.testing.simulated_cloud import Cloud
from vast_account import KEY, LEDGER, offer, record_created, rental, vast_account


@pytest.fixture
def cloud() -> Cloud:
    return Cloud(offers=[offer(11, 400_000), offer(12, 300_000)])


@pytest.fixture
def machines(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An inventory whose provider is the simulated one, in a folder with a campaign."""
    with vast_account(cloud, tmp_path, monkeypatch) as file:
        yield file


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
    out = capsys.readouterr().out
    assert "nobody offers RTX 4090 on these terms now; try a higher --max-price" in out
    assert main(["offers", "--gpu", "RTX 490", "--machines", str(machines)]) == 1
    out = capsys.readouterr().out
    assert "correct the name of the GPU" in out
    assert "--max-price" not in out  # none was given
    assert main([*command, "--max-price", "cheap"]) == 2
    assert "--max-price" in capsys.readouterr().err


def test_without_an_inventory_the_providers_whose_key_is_here_are_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RUNPOD_API_KEY", "TENSORDOCK_API_KEY", "VAST_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    command = ["offers", "--gpu", "RTX 4090"]
    assert main(command) == 2
    assert "set one of RUNPOD_API_KEY, TENSORDOCK_API_KEY, VAST_API_KEY" in capsys.readouterr().err
    monkeypatch.setenv("VAST_API_KEY", "key")
    asked: list[str] = []

    def none(provider: VastProvider, want: Want) -> list[GpuOffer]:
        asked.append(want.gpu)
        return []

    monkeypatch.setattr(VastProvider, "offers", none)
    assert main(command) == 1
    assert asked == ["RTX 4090"]
    assert "nobody offers RTX 4090" in capsys.readouterr().out


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
    record_created({used.id: rental(url)})
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


def test_a_provider_that_cannot_be_reached_is_named_with_a_way_out(
    machines: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchfleet.providers.client._TRIES", 1)
    machines.write_text("providers: {vast: {url: 'http://127.0.0.1:9'}}\n")
    assert main(["offers", "--gpu", "RTX 4090", "--machines", str(machines)]) == 2
    error = capsys.readouterr().err
    assert "http://127.0.0.1:9 cannot be reached" in error
    assert "Error(" not in error


def test_a_sweep_that_stays_returns_what_dead_runs_rented_and_nothing_else(
    machines: Path,
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = machines.read_text().split("'")[1]
    orphan, used = (cloud.add(cloud.offers[0], "", "me") for _ in range(2))
    orphan.label, used.label = f"bf-{LEDGER}-aaaaaaaa", f"bf-{LEDGER}-eeeeeeee"
    here = vars(Process.own())
    dead = replace(rental(url), process={**here, "name": "a process that ended"})
    alive = replace(rental(url), id="eeeeeeee", process=here)
    assert main(["run", "study.yaml"]) == 0
    record_created({orphan.id: dead, used.id: alive})
    more_turns = iter(range(2))  # once the orphan is gone

    def pause(seconds: float) -> None:
        if [one.label for one in cloud.living] == [used.label] and next(more_turns, 0) == 1:
            raise KeyboardInterrupt
        time.sleep(min(seconds, 0.05))

    own_clock = SimpleNamespace(time=time.time, sleep=pause)  # other threads sleep as ever
    monkeypatch.setattr("benchfleet.cli.verbs.sweep_orphans.time", own_clock)
    monkeypatch.setattr(client, "_TRIES", 1)
    cloud.faults["list"] = ["", "away"]
    capsys.readouterr()
    assert sweep("--forever") == 130
    printed = capsys.readouterr().out
    assert "returning aaaaaaaa" in printed
    assert "its runner died" in printed
    assert "cannot be read" not in printed
    assert [one.label for one in cloud.living] == [used.label]


def test_a_service_may_sweep_or_rent(
    machines: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["service", "study.yaml", "--machines", "machines.yaml"]
    assert main(["service", "sweep", *words[1:]]) == 0
    text = capsys.readouterr().out
    assert '"sweep-orphans" "study.yaml" "--machines" "machines.yaml" "--forever"' in text
    assert KEY not in text
    machines.write_text(machines.read_text() + "rent: [{name: r4090, gpu: RTX 4090}]\n")
    assert main([*words, "--rent"]) == 0
    printed = capsys.readouterr()
    assert '"--rent" "--yes"' in printed.out
    assert "TimeoutStopSec=900" in printed.out
    assert "rents machines without asking" in printed.err
    assert main(["service", "sweep", "study.yaml"]) == 2
    assert "--machines" in capsys.readouterr().err
    assert main([*words, "another.yaml"]) == 2
    assert "is one file; remove another.yaml" in capsys.readouterr().err
    assert main(["service", "--machines", "machines.yaml", "sweep", "study.yaml"]) == 2
    assert "write it right after" in capsys.readouterr().err


def test_doctor_asks_for_key_credit_and_offers(
    machines: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = machines.read_text()
    machines.write_text(
        f"{text}rent:\n  - {{name: r4090, gpu: RTX 4090}}\n"
        "  - {name: dear, gpu: RTX 4090, max_price: 0.10 USD/h}\n"
        "  - {name: euro, gpu: RTX 4090, max_price: 0.60 EUR/h}\n"
    )
    main(["doctor", "--machines", str(machines)])
    out = capsys.readouterr().out
    assert "provider vast: account me" in out
    assert "rent r4090: 2 offers of RTX 4090, from 0.300 USD/h at vast" in out
    assert "! rent dear: nobody offers RTX 4090" in out
    assert "now; the cheapest costs 0.300 USD/h, more than max_price" in out
    assert "raise max_price, correct the name of the GPU" in out
    assert "max_price is in EUR, and vast rents in USD; use one currency" in out
    monkeypatch.setenv("VAST_API_KEY", "wr0ngwr0ng")
    assert main(["doctor", "--machines", str(machines)]) == 1
    out = capsys.readouterr().out
    assert "✗ provider vast" in out
    assert "wr0ng" not in out


def test_a_machine_is_returned_by_its_name_alone(
    machines: Path, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    url = machines.read_text().split("'")[1]
    one, two = (cloud.add(cloud.offers[0], "", "me") for _ in range(2))
    one.label, two.label = f"bf-{LEDGER}-aaaaaaaa", f"bf-{LEDGER}-eeeeeeee"
    assert main(["run", "study.yaml"]) == 0
    first = replace(rental(url), entry="r4090")
    record_created({one.id: first, two.id: replace(first, id="eeeeeeee")})
    capsys.readouterr()
    assert main(["status", "study.yaml"]) == 0
    shown = "rented   r4090-aaaaaaaa  (created; vast 1; 0.400 USD/h)"
    assert shown in capsys.readouterr().out.splitlines()[1]
    assert main(["status", "study.yaml", "--json"]) == 0
    rented = json.loads(capsys.readouterr().out)["rented"]
    assert [(row["name"], row["state"]) for row in rented] == [
        ("r4090-aaaaaaaa", "created"),
        ("r4090-eeeeeeee", "created"),
    ]
    words = ["return", "study.yaml", "--machines", "machines.yaml"]
    assert main([*words, "r4090-aaaaaaax"]) == 2
    assert "did you mean 'r4090-aaaaaaaa'" in capsys.readouterr().err
    assert main([*words, "r4090-aaaaaaaa"]) == 2  # nobody answers
    assert main([*words, "r4090-aaaaaaaa", "--yes"]) == 0
    assert "ended     r4090-aaaaaaaa" in capsys.readouterr().out
    assert [instance.label for instance in cloud.living] == [two.label]


def test_a_gpu_is_offered_by_memory_whatever_its_form(
    machines: Path, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(offer(21, 700_000), gpu="A100 SXM4", vram=40 << 30)
    large = replace(offer(22, 900_000), gpu="A100 PCIE", vram=80 << 30)
    cloud.offers.extend((small, large))
    command = ["offers", "--gpu", "A100 80GB", "--machines", str(machines), "--json"]
    assert main(command) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)["offers"]] == ["22"]
