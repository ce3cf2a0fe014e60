"""RunPod: containers in its own and in others' data centres. Nothing of it was tried live.

Facts: its REST API v1 (docs.runpod.io/api-reference) for pods; the types of GPUs with their prices
are in its GraphQL API alone. A pod has a key of its own in ``RUNPOD_API_KEY``.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from benchfleet.domain.hardware import is_gpu
from benchfleet.domain.rental import Account
from benchfleet.providers.base import (
    DeadMan,
    GpuOffer,
    Instance,
    InstanceSpec,
    InstanceState,
    Listing,
    Provider,
    Want,
)
from benchfleet.providers.client import ApiClient
from benchfleet.providers.dead_man import timer_script
from benchfleet.providers.limiter import Limiter
from benchfleet.providers.parsing import millionths, readable
from benchfleet.providers.secret import Secret

URL = "https://rest.runpod.io"
_TYPES_URL = "https://api.runpod.io"
INTERVALS = {"create": 1.0, "destroy": 1.0, "list": 1.0, "offers": 1.0, "account": 1.0}  # seconds
_GB = 10**9
_MIN_DISK_GB = 20
_TYPES = """query ($count: Int!) { gpuTypes { id displayName memoryInGb
lowestPrice(input: {gpuCount: $count}) { uninterruptablePrice stockStatus } } }"""
_WHO = "query { myself { id clientBalance } }"
_SOLD_OUT = "no longer any instances available", "no instances currently available"
_STATES: Mapping[str, InstanceState] = {
    "RUNNING": "running",  # asked for; without an address it only starts
    "CREATED": "starting",
    "EXITED": "stopped",
    "TERMINATED": "stopped",
}
# Official images start their server for SSH in /start.sh, from the key in PUBLIC_KEY.
_START = """\
mkdir -p ~/.ssh && echo {key} >> ~/.ssh/authorized_keys
{timer}
[ -x /start.sh ] && exec /start.sh
service ssh start; sleep infinity
"""


class RunPodProvider(Provider):
    """An account at RunPod."""

    name = "runpod"
    key_variable = "RUNPOD_API_KEY"
    dead_man: ClassVar[DeadMan] = "destroys"
    console = "https://console.runpod.io/pods"

    def __init__(self, api: ApiClient, types_url: str = _TYPES_URL) -> None:
        self._api, self._types_url = api, types_url
        self._account: Account | None = None

    @classmethod
    def open(cls, key: Secret, url: str) -> RunPodProvider:
        api = ApiClient(url or URL, key, Limiter(INTERVALS))
        return cls(api, url or _TYPES_URL)  # a gateway serves both

    def account(self) -> Account:
        if self._account is None:
            id = str(self._myself().get("id") or self._api.key_digest)
            self._account = Account(provider=self.name, url=self._api.url, id=id)
        return self._account

    def balance(self) -> int | None:
        balance = self._myself().get("clientBalance")
        return None if balance is None else millionths(balance)

    def _myself(self) -> Mapping[str, Any]:
        with readable("the account"):
            return dict(self._query("account", _WHO, {})["myself"])

    def _query(self, endpoint: str, query: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"query": query, "variables": variables}
        reply = self._api.repeated(endpoint, "POST", f"{self._types_url}/graphql", json=body)
        with readable(endpoint):
            return dict(reply.data["data"])

    def offers(self, want: Want) -> Sequence[GpuOffer]:
        if want.region:
            return ()  # a type of GPU says nothing of places
        with readable("types of GPUs"):
            rows = self._query("offers", _TYPES, {"count": want.count})["gpuTypes"]
            offers = [_offer(row, want) for row in rows if _suits(row, want)]
        return [one for one in offers if want.max_price is None or one.hourly <= want.max_price]

    def create(self, offer: GpuOffer, spec: InstanceSpec) -> str:
        body = {
            "name": spec.label,
            "imageName": spec.image,
            "gpuTypeIds": [offer.id],
            "gpuCount": offer.count,
            "cloudType": "SECURE",
            "interruptible": False,
            "containerDiskInGb": max(_MIN_DISK_GB, -(-spec.disk // _GB)),
            "volumeInGb": 0,
            "ports": ["22/tcp"],
            "env": {"PUBLIC_KEY": spec.public_key},
            "dockerStartCmd": ["bash", "-c", self._start_script(spec)],
        }
        reply = self._api.create("POST", "/v1/pods", body)
        data = reply.data if isinstance(reply.data, dict) else {}
        if reply.status < 300 and data.get("id"):
            return str(data["id"])
        # It says with 500 that there is no machine, so the text counts, too.
        sold_out = any(words in reply.text.casefold() for words in _SOLD_OUT)
        raise self._api.refusal(reply, sold_out=sold_out)

    def _start_script(self, spec: InstanceSpec) -> str:
        timer = ""
        if spec.has_timer:
            url = f"{self._api.url}/v1/pods"
            timer = timer_script(
                url=url, label=spec.label, key="RUNPOD_API_KEY", id="RUNPOD_POD_ID"
            )
        return _START.format(key=shlex.quote(spec.public_key), timer=timer)

    def list(self, prefix: str = "") -> Listing:
        reply = self._api.repeated("list", "GET", "/v1/pods")
        with readable("pods"):
            if not isinstance(reply.data, list):
                raise TypeError("it is not a list")
            instances = [_instance(row) for row in reply.data]
        named = tuple(one for one in instances if one.label.startswith(prefix))
        return Listing(instances=named, at=reply.at or time.time())

    def destroy(self, instance: str) -> float | None:
        reply = self._api.destroy(f"/v1/pods/{instance}")
        return None if reply is None else reply.at


def _suits(row: Mapping[str, Any], want: Want) -> bool:
    price = (row.get("lowestPrice") or {}).get("uninterruptablePrice")
    memory = int(row["memoryInGb"]) << 30
    names = str(row["displayName"]), str(row["id"])
    return bool(price) and memory >= want.vram and any(is_gpu(want.gpu, n, memory) for n in names)


def _offer(row: Mapping[str, Any], want: Want) -> GpuOffer:
    return GpuOffer(
        provider="runpod",
        id=str(row["id"]),
        machine="",  # it is known only once it is rented
        gpu=str(row["displayName"]),
        count=want.count,
        vram=int(row["memoryInGb"]) << 30,
        price=millionths(float(row["lowestPrice"]["uninterruptablePrice"]) * want.count),
    )


def _instance(row: Mapping[str, Any]) -> Instance:
    status = str(row.get("desiredStatus") or "")
    state = _STATES.get(status, "starting")
    port = (row.get("portMappings") or {}).get("22")
    address = str(row.get("publicIp") or "")
    if state == "running" and not (address and port):
        state = "starting"
    hourly = row.get("costPerHr")
    return Instance(
        id=str(row["id"]),
        label=str(row.get("name") or ""),
        state=state,
        began=_seconds(row.get("lastStartedAt")),
        hourly=None if hourly is None else millionths(hourly),
        address=address,
        port=int(port or 22),
        message=str(row.get("lastStatusChange") or "")[:200],
    )


def _seconds(text: Any) -> float | None:
    """Seconds since the epoch; None if it is not a time with its zone."""
    try:
        time = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return time.timestamp() if time.tzinfo else None
