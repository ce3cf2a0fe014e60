"""Static hosts: machines that are there already, and are rented one run at a time.

The provider's `url` is a JSON file with a list of hosts. A host is rented by a file of its own in a
folder beside it, which only one can make. So all who rent must see that folder. Nothing is done on
the hosts themselves: let in the campaign's SSH key there first.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.domain import units
from benchfleet.domain.rental import Account
from benchfleet.providers.base import (
    BadRequest,
    GpuOffer,
    Instance,
    InstanceSpec,
    Listing,
    OfferGone,
    Provider,
    ProviderAway,
    Want,
)
from benchfleet.providers.parsing import millionths
from benchfleet.providers.secret import Secret

_FIELDS = {"name", "address", "port", "user", "gpu", "gpus", "vram", "price", "region"}


@dataclass(frozen=True, kw_only=True)
class StaticHost:
    """A host of the file."""

    name: str
    address: str
    gpu: str
    gpus: int = 1
    vram: int = 0  # bytes for each GPU
    port: int = 22
    user: str = "root"
    price: int = 0  # an hour
    currency: str = "USD"
    region: str = ""


class StaticProvider(Provider):
    """The hosts of a file."""

    name = "static"
    visible_within_s = 1.0

    def __init__(self, file: Path) -> None:
        self._file, self._rented = file, file.with_name(f"{file.name}.rented")
        self._hosts = {host.name: host for host in _read(file)}
        self.billing = Provider.billing

    @classmethod
    def open(cls, key: Secret, url: str) -> StaticProvider:
        if not url:
            raise BadRequest("static needs the file of its hosts; write static: {url: hosts.json}")
        return cls(Path(url).absolute())

    def account(self) -> Account:
        digest = hashlib.sha256(str(self._file).encode()).hexdigest()[:8]
        return Account(provider=self.name, url=str(self._file), id=digest)

    def offers(self, want: Want) -> Sequence[GpuOffer]:
        offers = [
            GpuOffer(
                provider=self.name, id=host.name, machine=host.name, gpu=host.gpu, count=host.gpus,
                vram=host.vram, price=host.price, currency=host.currency, region=host.region,
                reliability=1.0,
            )
            for host in self._hosts.values()
            if not self._record(host.name).exists()
        ]  # fmt: skip
        suited = (one for one in offers if one.count == want.count and want.allows(one))
        return sorted(suited, key=lambda one: (one.hourly, one.id))

    def create(self, offer: GpuOffer, spec: InstanceSpec) -> str:
        record = {"label": spec.label, "began": time.time()}
        try:
            self._rented.mkdir(exist_ok=True)
            with self._record(offer.id).open("x") as file:
                json.dump(record, file)
        except FileExistsError:
            raise OfferGone(f"{offer.id} is rented by others") from None
        except OSError as error:
            raise BadRequest(f"{self._rented} cannot be written: {error.strerror}") from None
        return offer.id

    def list(self, prefix: str = "") -> Listing:
        at, instances = time.time(), []
        try:
            files = sorted(self._rented.glob("*.json")) if self._rented.exists() else []
            for file in files:
                with suppress(FileNotFoundError):  # it was returned meanwhile
                    instances.append(self._instance(file))
        except (OSError, ValueError, LookupError) as error:
            raise ProviderAway(f"{self._rented} cannot be read: {error!r}") from None
        named = tuple(one for one in instances if one.label.startswith(prefix))
        return Listing(instances=named, at=at)

    def destroy(self, instance: str) -> float | None:
        try:
            self._record(instance).unlink(missing_ok=True)
        except OSError as error:
            raise ProviderAway(f"{self._rented} cannot be written: {error.strerror}") from None
        return time.time()

    def _record(self, name: str) -> Path:
        return self._rented / f"{name}.json"

    def _instance(self, file: Path) -> Instance:
        text = file.read_text()
        if not text:  # it is being made
            return Instance(id=file.stem, label="", state="starting")
        record, host = json.loads(text), self._hosts.get(file.stem)
        if host is None:  # it left the file of hosts
            return Instance(id=file.stem, label=record["label"], state="broken")
        return Instance(
            id=host.name, label=record["label"], state="running", began=float(record["began"]),
            hourly=host.price, address=host.address, port=host.port, user=host.user,
        )  # fmt: skip


def _read(file: Path) -> list[StaticHost]:
    try:
        rows = json.loads(file.read_text())
        hosts = [_host(row) for row in rows]
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError) as error:
        example = '[{"name": "lab1", "address": "10.0.0.5", "gpu": "RTX 4090", "vram": "24GB"}]'
        raise BadRequest(f"{file} is no list of hosts ({error}); write {example}") from None
    if len({host.name for host in hosts}) < len(hosts):
        raise BadRequest(f"{file} has two hosts of one name; give each its own")
    return hosts


def _host(row: Mapping[str, Any]) -> StaticHost:
    if unknown := sorted(set(row) - _FIELDS):
        raise ValueError(f"unknown {', '.join(unknown)}")
    fields: dict[str, Any] = {**row, "name": str(row["name"]), "address": str(row["address"])}
    if "/" in fields["name"] or not fields["name"]:
        raise ValueError(f"{fields['name']!r} is no name")
    fields["gpu"] = str(row["gpu"])
    if "vram" in row:
        fields["vram"] = units.size(row["vram"])
    if "price" in row:
        price = units.price(row["price"])
        fields["price"] = millionths(price.amount)
        fields["currency"] = price.currency or "USD"
    return StaticHost(**fields)
