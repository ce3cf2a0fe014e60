"""The HTTP interface of TensorDock over a `Cloud`, with its faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult

from benchfleet.testing.simulated_cloud import CloudInstance
from benchfleet.testing.simulated_http import SimulatedApi, failed

_MILLION = 1_000_000


class TensorDockApi(SimulatedApi):
    """Answers requests as TensorDock does. The whole price of an offer is that of its GPU."""

    def _answer(self, method: str, parts: SplitResult, key: str, body: bytes) -> tuple[int, Any]:
        if (user := self.keys.get(key)) is None:
            return 401, {"error": "Unauthorized"}
        match [method, *parts.path.rstrip("/").split("/")[3:]]:
            case ["GET", "locations"]:
                return self._locations()
            case ["POST", "instances"]:
                return self._create(user, json.loads(body)["data"]["attributes"])
            case ["GET", "instances"]:
                return self._list(user)
            case ["DELETE", "instances", id]:
                return self._destroy(user, id)
        return 404, {"error": "Not found"}

    def _locations(self) -> tuple[int, Any]:
        if fault := self.cloud.fault("offers"):
            return failed(fault)
        free = dict.fromkeys(("per_vcpu_hr", "per_gb_ram_hr", "per_gb_storage_hr"), 0.0)
        locations = [
            {
                "id": offer.id,
                "city": offer.region,
                "gpus": [
                    {
                        "v0Name": f"gpu-pcie-{offer.vram >> 30}gb",
                        "displayName": f"NVIDIA GeForce {offer.gpu} PCIe {offer.vram >> 30}GB",
                        "max_count": offer.count,
                        "price_per_hr": offer.price / _MILLION,
                        "pricing": free,
                        "network_features": {"dedicated_ip_available": True},
                    }
                ],
            }
            for offer in self.cloud.offers
        ]
        return 200, {"data": {"locations": locations}}

    def _create(self, user: str, requested: Mapping[str, Any]) -> tuple[int, Any]:
        cloud = self.cloud
        fault = cloud.fault("create")
        cloud.creates.append(requested["name"])
        offer = next((one for one in cloud.offers if one.id == requested["location_id"]), None)
        if fault == "refused" or offer is None:
            return 400, {"status": 400, "error": "No available public IPs on this hostnode"}
        if fault in ("away", "busy"):
            return failed(fault)
        if requested["resources"]["storage_gb"] < 100 or requested["resources"]["vcpu_count"] % 2:
            return 422, {"error": "invalid resources"}
        one = cloud.add(offer, requested["name"], user)
        self._created(one, requested)
        data = {"type": "virtualmachine", "id": one.id, "name": one.label, "status": "Starting"}
        return failed(fault) if fault else (201, {"data": data})

    def _list(self, user: str) -> tuple[int, Any]:
        fault = self.cloud.fault("list")
        if fault == "short":
            return 200, {"data": {}}
        if fault:
            return failed(fault)
        rows = [_row(one) for one in self.cloud.visible(user)]
        return 200, {"data": {"instances": rows}}

    def _destroy(self, user: str, id: str) -> tuple[int, Any]:
        fault = self.cloud.fault("destroy")
        if fault in ("away", "busy"):
            return failed(fault)
        if fault != "ignored" and not self._end(user, id):
            return 404, {"error": "Instance not found"}
        return failed(fault) if fault == "lost" else (200, {"data": {"id": id}})


def _row(one: CloudInstance) -> dict[str, Any]:
    status = {"broken": "Error", "stopped": "stoppeddisassociated"}.get(one.state, one.state)
    return {
        "type": "virtualmachine",
        "id": one.id,
        "attributes": {
            "name": one.label,
            "status": status,
            "ipAddress": one.address,
            "portForwards": [{"internal_port": 22, "external_port": one.port}],
            "rateHourly": one.offer.hourly / _MILLION,
        },
    }
