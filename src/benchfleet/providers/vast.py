"""Vast.ai: containers on machines of many owners.

Facts: the OpenAPI files and guides in the public repository vast-ai/docs. GPU time is billed while
an instance runs, storage from its creation. Instances have a key of their own, which can destroy
that instance alone.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchfleet.domain.rental import Account
from benchfleet.providers.base import (
    CreatedBroken,
    CreateUnknown,
    DeadMan,
    GpuOffer,
    Instance,
    InstanceSpec,
    InstanceState,
    Listing,
    OfferGone,
    Provider,
    ProviderAway,
    Want,
)
from benchfleet.providers.client import DEFINITE, ApiClient, Reply
from benchfleet.providers.dead_man import timer_script
from benchfleet.providers.limiter import Limiter
from benchfleet.providers.parsing import millionths, readable
from benchfleet.providers.secret import Secret

URL = "https://console.vast.ai"
INTERVALS = {"create": 4.5, "destroy": 3.0, "list": 1.0, "offers": 1.0, "account": 1.0}  # seconds
_MB, _GB = 1 << 20, 10**9
_HOURS_PER_MONTH = 30 * 24
_PAGE = 25  # instances, at most
_OFFERS = 64
_MIN_RELIABILITY = 0.9
_MIN_DISK_GB = 8
_FORMS = "", " PCIE", " SXM", " SXM2", " SXM4", " NVL"  # in names of GPUs
_STATES: Mapping[Any, InstanceState] = {
    None: "starting",
    **dict.fromkeys(("created", "loading", "rebooting"), "starting"),
    "running": "running",
    **dict.fromkeys(("stopped", "frozen"), "stopped"),
    **dict.fromkeys(("exited", "unknown", "offline"), "broken"),
}


class VastProvider(Provider):
    """An account at Vast.ai."""

    name = "vast"
    key_variable = "VAST_API_KEY"
    dead_man: ClassVar[DeadMan] = "destroys"
    console = "https://cloud.vast.ai/instances/"

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._account: Account | None = None

    @classmethod
    def open(cls, key: Secret, url: str) -> VastProvider:
        return cls(ApiClient(url or URL, key, Limiter(INTERVALS)))

    def account(self) -> Account:
        if self._account is None:
            id = str(self._user().get("id") or self._api.key_digest)
            self._account = Account(provider=self.name, url=self._api.url, id=id)
        return self._account

    def balance(self) -> int | None:
        credit = self._user().get("credit")
        return None if credit is None else millionths(credit)

    def _user(self) -> Mapping[str, Any]:
        data = self._api.repeated("account", "GET", "/api/v0/users/current/").data
        return data if isinstance(data, dict) else {}

    def offers(self, want: Want) -> Sequence[GpuOffer]:
        disk = max(_MIN_DISK_GB, -(-want.disk // _GB))
        query: dict[str, Any] = {
            "gpu_name": {"in": gpu_names(want.gpu)},
            "num_gpus": {"eq": want.count},
            "verified": {"eq": True},
            "rentable": {"eq": True},
            "rented": {"eq": False},
            "direct_port_count": {"gte": 1},
            "reliability2": {"gte": _MIN_RELIABILITY},
            "type": "ondemand",
            "allocated_storage": disk,
            "order": [["dph_total", "asc"]],
            "limit": _OFFERS,
        }
        if want.vram:
            query["gpu_ram"] = {"gte": want.vram // _MB}
        reply = self._api.repeated("offers", "POST", "/api/v0/bundles/", json=query)
        with readable("offers"):
            offers = [_offer(one, disk) for one in _rows(reply, "offers")]
        return [one for one in offers if want.allows(one)]

    def create(self, offer: GpuOffer, spec: InstanceSpec) -> str:
        body = {
            "client_id": "me",
            "image": spec.image,
            "disk": max(_MIN_DISK_GB, -(-spec.disk // _GB)),
            "label": spec.label,
            "onstart": self._start_script(spec),
            "runtype": "ssh_direct",
            "cancel_unavail": True,
        }
        reply = self._api.create("PUT", f"/api/v0/asks/{offer.id}/", body)
        data = reply.data if isinstance(reply.data, dict) else {}
        instance = data.get("new_contract")
        if instance and data.get("success") is not True:
            raise CreatedBroken(_message(data), str(instance))
        if instance:
            return str(instance)
        raise self._refusal(reply, data)

    def _start_script(self, spec: InstanceSpec) -> str:
        """Lets our key in, since an account's own keys may be others, and arms the timer."""
        key = shlex.quote(spec.public_key)
        script = f"mkdir -p ~/.ssh && echo {key} >> ~/.ssh/authorized_keys\n"
        if spec.has_timer:
            url = f"{self._api.url}/api/v0/instances"
            script += timer_script(
                url=url, label=spec.label, key="CONTAINER_API_KEY", id="CONTAINER_ID"
            )
        return script

    def _refusal(self, reply: Reply, data: Mapping[str, Any]) -> Exception:
        """A definite refusal by its known forms; all else is `CreateUnknown`."""
        if "no_such_ask" in reply.text or reply.status in (404, 410):
            return OfferGone(_message(data) or "the offer is gone")
        error = self._api.error("create", reply)
        if isinstance(error, DEFINITE):
            return error
        if reply.status == 400 and data.get("error"):
            return error or CreateUnknown(_message(data))
        return CreateUnknown(f"{reply.status}: {_message(data)}")

    def list(self, prefix: str = "") -> Listing:
        instances: list[Instance] = []
        token, at, total = "", 0.0, None
        while True:
            query: dict[str, Any] = {"limit": _PAGE, **({"after_token": token} if token else {})}
            reply = self._api.repeated("list", "GET", "/api/v1/instances/", params=query)
            at = reply.at or time.time()
            with readable("instances"):
                instances += [_instance(row) for row in _rows(reply, "instances")]
            total = reply.data.get("total_instances", total)
            token = reply.data.get("next_token") or ""
            if not token:
                break
        if total is not None and len({one.id for one in instances}) != total:
            raise ProviderAway(f"the list has {len(instances)} of {total} instances")
        named = tuple(one for one in instances if one.label.startswith(prefix))
        return Listing(instances=named, at=at)

    def destroy(self, instance: str) -> float | None:
        reply = self._api.destroy(f"/api/v0/instances/{instance}/", missing="no_such_instance")
        if reply is None:
            return None
        data = reply.data if isinstance(reply.data, dict) else {}
        if data.get("success") is False:
            raise ProviderAway(_message(data))
        return reply.at


def gpu_names(requested: str) -> list[str]:
    """The names that such a GPU may have here: without its memory, and with its form."""
    extra = r"\s*\b\d+\s*gi?b\b|\bnvidia\s+|\bgeforce\s+"
    name = re.sub(extra, "", requested, flags=re.IGNORECASE).strip()
    return [f"{name}{form}" for form in _FORMS]


def _message(data: Mapping[str, Any]) -> str:
    return " ".join(str(data[name]) for name in ("error", "msg") if data.get(name))[:200]


def _rows(reply: Reply, name: str) -> Sequence[Mapping[str, Any]]:
    rows = reply.data.get(name) if isinstance(reply.data, dict) else None
    if not isinstance(rows, list):
        raise ProviderAway(f"the answer has no list of {name}")
    return rows


def _offer(row: Mapping[str, Any], disk_gb: int) -> GpuOffer:
    storage = float(row.get("storage_cost") or 0) * disk_gb / _HOURS_PER_MONTH
    base = row.get("dph_base")
    return GpuOffer(
        provider="vast",
        id=str(row["id"]),
        machine=str(row.get("machine_id", "")),
        gpu=str(row.get("gpu_name", "")).replace("_", " "),
        count=int(row.get("num_gpus") or 1),
        vram=int(row.get("gpu_ram") or 0) * _MB,
        price=millionths(row.get("dph_total") if base is None else base),
        storage_price=0 if base is None else millionths(storage),
        transfer_price=millionths(row.get("inet_down_cost")),
        region=str(row.get("geolocation") or ""),
        reliability=row.get("reliability2") or row.get("reliability"),
        driver=str(row.get("driver_version") or ""),
        cuda=str(row.get("cuda_max_good") or ""),
    )


def _instance(row: Mapping[str, Any]) -> Instance:
    status = row.get("actual_status")
    state = _STATES.get(status, "starting")
    states = {row.get("cur_state"), row.get("intended_status"), row.get("next_state")}
    message = str(row.get("status_msg") or "")
    if states == {"stopped"}:
        state, message = "stopped", message or "interrupted by the provider"
    if status == "created" and "OCI runtime create failed" in message:
        state = "broken"
    ports = (row.get("ports") or {}).get("22/tcp") or []
    address = str(row.get("public_ipaddr") or "").strip()
    if ports and address:
        port = int(ports[0]["HostPort"])
    else:
        address, port = str(row.get("ssh_host") or ""), int(row.get("ssh_port") or 22)
    began = row.get("start_date")
    return Instance(
        id=str(row["id"]),
        label=str(row.get("label") or ""),
        state=state,
        began=None if began is None else float(began),
        hourly=None if row.get("dph_total") is None else millionths(row["dph_total"]),
        address=address,
        port=port,
        message=message[:200],
    )
