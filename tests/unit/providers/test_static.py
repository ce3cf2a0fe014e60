"""Static hosts: offered, rented by one at a time, listed, and returned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.rent import ProviderAccess
from benchfleet.providers.base import BadRequest, InstanceSpec, OfferGone, Want
from benchfleet.providers.static import StaticProvider
from benchfleet.rentals.accounts import open_provider

SIZE = {"vram": "24GiB"}
HOSTS: list[dict[str, Any]] = [
    {"name": "lab1", "address": "10.0.0.5", "gpu": "RTX 4090", **SIZE, "price": "0.5 EUR/h"},
    {"name": "lab2", "address": "10.0.0.6", "gpu": "RTX 4090", **SIZE, "user": "me"},
    {"name": "lab3", "address": "10.0.0.7", "gpu": "A100", "vram": "80GiB", "gpus": 2},
]
SPEC = InstanceSpec(label="bf-aaaaaaaaaa-bbbbbbbb", image="", disk=0, public_key="ssh-ed25519 AAAA")
WANT = Want(gpu="RTX 4090")


def provider(folder: Path, hosts: object = HOSTS) -> StaticProvider:
    file = folder / "hosts.json"
    file.write_text(json.dumps(hosts))
    opened = open_provider(ProviderAccess(name="static", url=str(file)))  # without any key
    assert isinstance(opened, StaticProvider)
    return opened


def test_a_host_is_rented_by_one_and_offered_again_once_it_is_returned(tmp_path: Path) -> None:
    mine, other = provider(tmp_path), provider(tmp_path)
    assert mine.account() == other.account()
    cheap, dear = mine.offers(WANT)
    assert (cheap.id, cheap.price, dear.price, dear.currency) == ("lab2", 0, 500_000, "EUR")
    assert mine.create(cheap, SPEC) == "lab2"
    with pytest.raises(OfferGone, match="rented by others"):
        other.create(cheap, SPEC)
    assert [one.id for one in other.offers(WANT)] == ["lab1"]
    (instance,) = other.list("bf-").instances
    assert (instance.id, instance.label, instance.state) == ("lab2", SPEC.label, "running")
    assert (instance.address, instance.user, instance.began is not None) == ("10.0.0.6", "me", True)
    assert not other.list("bf-other").instances
    other.destroy("lab2")
    other.destroy("lab2")  # gone already is no error
    assert not mine.list().instances
    assert len(mine.offers(WANT)) == 2


def test_offers_are_what_is_wanted(tmp_path: Path) -> None:
    static = provider(tmp_path)
    assert not static.offers(Want(gpu="A100"))
    (large,) = static.offers(Want(gpu="A100 80GB", count=2))
    assert large.id == "lab3"
    assert [one.id for one in static.offers(Want(gpu="RTX 4090", max_price=100_000))] == ["lab2"]


def test_a_host_that_left_the_file_is_listed_as_broken(tmp_path: Path) -> None:
    static = provider(tmp_path)
    static.create(static.offers(WANT)[0], SPEC)
    (instance,) = provider(tmp_path, HOSTS[:1]).list().instances
    assert (instance.id, instance.label, instance.state) == ("lab2", SPEC.label, "broken")


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ([{"name": "a", "gpu": "T4"}], "address"),
        ([{**HOSTS[0], "ram": 3}], "unknown ram"),
        ([{**HOSTS[0], "name": "../a"}], "is no name"),
        ([{**HOSTS[0], "price": "cheap"}], "is not a price"),
        ([HOSTS[0], HOSTS[0]], "two hosts of one name"),
        ("lab1", "no list of hosts"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, hosts: object, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        provider(tmp_path, hosts)


def test_the_file_must_be_named() -> None:
    with pytest.raises(BadRequest, match="write static"):
        open_provider(ProviderAccess(name="static"))
