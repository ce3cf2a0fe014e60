"""The HTTP interface of Vast.ai over a `Cloud`, with its faults: for tests and for a first look.

`VastApi.answer` waits for nothing. `ApiServer` puts it behind a port of this machine.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qsl

from benchfleet.providers.base import GpuOffer
from benchfleet.testing.simulated_cloud import Cloud, CloudInstance
from benchfleet.testing.simulated_http import ApiServer, SimulatedApi, failed

_MILLION = 1_000_000


class VastApi(SimulatedApi):
    """Answers requests as Vast.ai does."""

    def _answer(self, method: str, parts: SplitResult, key: str, body: bytes) -> tuple[int, Any]:
        user = self.keys.get(key)
        path = parts.path.rstrip("/").split("/")[1:]  # api, v0, …
        if path[2:] == ["bundles"] and method == "POST":
            return self._offers(json.loads(body))
        if (one := self._of_own_key(key)) is not None:
            return self._of_itself(method, path[2:], one)
        if user is None:
            return 401, {"success": False, "error": "auth_error", "msg": "Invalid user key"}
        match path[2:]:
            case ["users", "current"]:
                return 200, {"id": user, "credit": 25.0}
            case ["asks", offer] if method == "PUT":
                return self._create(user, offer, json.loads(body))
            case ["instances"] if method == "GET":
                return self._list(user, dict(parse_qsl(parts.query)))
            case ["instances", instance] if method == "DELETE":
                return self._destroy(user, instance)
        return 404, {"success": False, "error": "not_found"}

    def _of_itself(self, method: str, path: list[str], one: CloudInstance) -> tuple[int, Any]:
        """What an instance may do with its own key: look at itself, and destroy itself."""
        if path != ["instances", one.id]:
            return 403, {"success": False, "error": "no_permission"}
        if method == "DELETE":
            return self._destroy(one.owner, one.id)
        return 200, {"instances": _instance_row(one)}

    def _offers(self, query: Mapping[str, Any]) -> tuple[int, Any]:
        if fault := self.cloud.fault("offers"):
            return failed(fault)
        names = query["gpu_name"]["in"]
        least = query.get("gpu_ram", {"gte": 0})["gte"] << 20
        suited = [one for one in self.cloud.offers if one.gpu in names and one.vram >= least]
        rows = [_offer_row(one) for one in suited]
        return 200, {"offers": rows}

    def _create(self, user: str, id: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        cloud = self.cloud
        fault = cloud.fault("create")
        cloud.creates.append(body["label"])
        offer = next((one for one in cloud.offers if one.id == id), None)
        if fault == "refused" or offer is None:
            return 404, {"success": False, "error": "no_such_ask", "msg": "no such ask"}
        if fault in ("away", "busy"):
            return failed(fault)
        one = cloud.add(offer, body["label"], user)
        self._created(one, body)
        if fault == "broken":
            one.state = "stopped"
            return 400, {"success": False, "error": "bid_too_low", "new_contract": one.id}
        return failed(fault) if fault else (200, {"success": True, "new_contract": int(one.id)})

    def _list(self, user: str, query: Mapping[str, str]) -> tuple[int, Any]:
        fault = self.cloud.fault("list")
        if fault not in ("", "short"):
            return failed(fault)
        visible = self.cloud.visible(user)
        first = int(query.get("after_token", "0"))
        size = int(query["limit"])
        page = visible[first : first + size]
        if fault == "short":
            page = page[:-1]
        more = str(first + size) if first + size < len(visible) else None
        rows = [_instance_row(one) for one in page]
        return 200, {"instances": rows, "next_token": more, "total_instances": len(visible)}

    def _destroy(self, user: str, id: str) -> tuple[int, Any]:
        fault = self.cloud.fault("destroy")
        if fault in ("away", "busy"):
            return failed(fault)
        if fault != "ignored" and not self._end(user, id):
            return 404, {"success": False, "error": "no_such_instance"}
        return failed(fault) if fault == "lost" else (200, {"success": True})


def _offer_row(offer: GpuOffer) -> dict[str, Any]:
    return {
        "id": int(offer.id),
        "machine_id": offer.machine,
        "gpu_name": offer.gpu,
        "num_gpus": offer.count,
        "gpu_ram": offer.vram >> 20,
        "dph_base": offer.price / _MILLION,
        "dph_total": offer.hourly / _MILLION,
        "storage_cost": 0.0,
        "inet_down_cost": offer.transfer_price / _MILLION,
        "geolocation": offer.region,
        "reliability2": offer.reliability,
        "driver_version": offer.driver,
        "cuda_max_good": offer.cuda,
    }


def _instance_row(one: CloudInstance) -> dict[str, Any]:
    status = {"starting": "loading", "broken": "exited"}.get(one.state, one.state)
    return {
        "id": int(one.id),
        "label": one.label,
        "actual_status": status,
        "start_date": one.began,
        "dph_total": one.offer.hourly / _MILLION,
        "ssh_host": one.address,
        "ssh_port": one.port,
    }


def main() -> None:
    """Serve a cloud with a few offers in real time, until Ctrl-C: a first look without a key."""
    import time

    rows = [(11, "RTX 4090", 24, 340_000), (12, "RTX 4090", 24, 420_000), (13, "A100", 80, 890_000)]
    offers = [
        GpuOffer(
            provider="vast", id=str(id), machine=f"m{id}", gpu=gpu, count=1, vram=vram << 30,
            price=price, region="Simulated", reliability=0.99, cuda="12.8",
        )
        for id, gpu, vram, price in rows
    ]  # fmt: skip
    cloud = Cloud(now=time.time(), offers=offers)
    server = ApiServer(VastApi(cloud, clock=time.time))
    print(f"a simulated Vast.ai at {server.url}; its key is 'key'", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.close()


if __name__ == "__main__":
    main()
