"""TensorDock: virtual machines at many locations (experimental; nothing of it was tried live).

Facts: the pages of dashboard.tensordock.com/api/docs on getting started, host nodes and creation.
The price of an instance is the sum of its GPUs, vCPUs, RAM and storage. 100 requests a minute may
be sent in all. An instance has no key of its own, so it cannot destroy itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchfleet.domain.hardware import is_gpu
from benchfleet.domain.rental import Account
from benchfleet.providers.base import (
    GpuOffer,
    Instance,
    InstanceSpec,
    InstanceState,
    Listing,
    Provider,
    Want,
)
from benchfleet.providers.client import ApiClient
from benchfleet.providers.limiter import Limiter
from benchfleet.providers.parsing import millionths, readable
from benchfleet.providers.secret import Secret

URL = "https://dashboard.tensordock.com"
INTERVALS = {"": 0.6}  # seconds, over all endpoints
_IMAGE = "ubuntu2404"
_GB = 10**9
_MIN_DISK_GB = 100
_VCPUS, _RAM_GB = 8, 32  # for each GPU
_SOLD_OUT = re.compile(
    r"no available (public ip|node)|not available|insufficient (gpu|capacity)", re.I
)
_STATES: Mapping[str, InstanceState] = {
    "running": "running",
    "starting": "starting",
    "stopped": "stopped",
    "stopping": "stopped",
    "stoppeddisassociated": "stopped",  # the owner took the GPU back
    "deleting": "stopped",
    "deleted": "stopped",
    "error": "broken",
}


class TensorDockProvider(Provider):
    """An organisation at TensorDock."""

    name = "tensordock"
    key_variable = "TENSORDOCK_API_KEY"
    console = "https://dashboard.tensordock.com"
    boots_system = True

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    @classmethod
    def open(cls, key: Secret, url: str) -> TensorDockProvider:
        return cls(ApiClient(url or URL, key, Limiter(INTERVALS)))

    def account(self) -> Account:
        """It names no user: the key stands for it."""
        return Account(provider=self.name, url=self._api.url, id=self._api.key_digest)

    def offers(self, want: Want) -> Sequence[GpuOffer]:
        reply = self._api.repeated("offers", "GET", "/api/v2/locations")
        with readable("locations"):
            locations = reply.data["data"]["locations"]
            offers = [offer for location in locations for offer in _offers(location, want)]
        return [one for one in offers if want.allows(one)]

    def create(self, offer: GpuOffer, spec: InstanceSpec) -> str:
        location, _, gpu = offer.id.partition("/")
        commands = [
            "mkdir -p /root/.ssh",
            f"echo '{spec.public_key}' >> /root/.ssh/authorized_keys",
        ]
        attributes = {
            "name": spec.label,
            "type": "virtualmachine",
            "image": spec.image or _IMAGE,
            "resources": {
                "vcpu_count": _VCPUS * offer.count,
                "ram_gb": _RAM_GB * offer.count,
                "storage_gb": _disk_gb(spec.disk),
                "gpus": {gpu: {"count": offer.count}},
            },
            "location_id": location,
            "useDedicatedIp": True,  # forwarded ports are ignored at some locations
            "ssh_key": spec.public_key,
            "cloud_init": {"runcmd": commands},
        }
        body = {"data": {"type": "virtualmachine", "attributes": attributes}}
        reply = self._api.create("POST", "/api/v2/instances", body)
        data = reply.data.get("data") if isinstance(reply.data, dict) else None
        if reply.status < 300 and isinstance(data, dict) and data.get("id"):
            return str(data["id"])
        sold_out = bool(_SOLD_OUT.search(reply.text)) or reply.status in (404, 410)
        raise self._api.refusal(reply, sold_out=sold_out)

    def list(self, prefix: str = "") -> Listing:
        reply = self._api.repeated("list", "GET", "/api/v2/instances")
        with readable("instances"):
            data = reply.data["data"]
            rows = data["instances"] if isinstance(data, dict) else data
            instances = [_instance(row) for row in rows]
        named = tuple(one for one in instances if one.label.startswith(prefix))
        return Listing(instances=named, at=reply.at or time.time())

    def destroy(self, instance: str) -> float | None:
        reply = self._api.destroy(f"/api/v2/instances/{instance}")
        return None if reply is None else reply.at


def _disk_gb(disk: int) -> int:
    return max(_MIN_DISK_GB, -(-disk // _GB))


def _offers(location: Mapping[str, Any], want: Want) -> Iterator[GpuOffer]:
    region = ", ".join(
        str(location.get(name) or "") for name in ("city", "stateprovince", "country")
    )
    for gpu in location["gpus"]:
        name = str(gpu["displayName"])
        network = gpu.get("network_features") or {}
        if not is_gpu(want.gpu, name) or int(gpu["max_count"]) < want.count:
            continue
        if not network.get("dedicated_ip_available", True):
            continue
        prices = gpu["pricing"]
        size = re.search(r"(\d+)gb", str(gpu["v0Name"]).casefold())
        compute = (
            float(gpu["price_per_hr"])
            + float(prices["per_vcpu_hr"]) * _VCPUS
            + float(prices["per_gb_ram_hr"]) * _RAM_GB
        )
        yield GpuOffer(
            provider="tensordock",
            id=f"{location['id']}/{gpu['v0Name']}",
            machine=f"{location['id']}/{gpu['v0Name']}",
            gpu=name,
            count=want.count,
            vram=int(size[1]) << 30 if size else 0,
            price=millionths(compute * want.count),
            storage_price=millionths(float(prices["per_gb_storage_hr"]) * _disk_gb(want.disk)),
            region=region,
        )


def _instance(row: Mapping[str, Any]) -> Instance:
    fields = {**row, **(row.get("attributes") or {})}
    status = str(fields.get("status") or "").casefold()
    hourly = fields.get("rateHourly")
    return Instance(
        id=str(row["id"]),
        label=str(fields.get("name") or ""),
        state=_STATES.get(status, "starting"),
        hourly=None if hourly is None else millionths(hourly),
        address=str(fields.get("ipAddress") or fields.get("ip_address") or ""),
        port=_ssh_port(fields.get("portForwards") or fields.get("port_forwards")),
        message=status,
    )


def _ssh_port(forwards: Any) -> int:
    """The port that leads to 22: forwards are a list of pairs, or a mapping."""
    if isinstance(forwards, dict):
        return int(forwards.get("22") or 22)
    pairs = ((one["internal_port"], one["external_port"]) for one in forwards or ())
    return next((int(outside) for inside, outside in pairs if int(inside) == 22), 22)
