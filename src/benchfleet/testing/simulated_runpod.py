"""The HTTP interface of RunPod over a `Cloud`, with its faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import SplitResult

from benchfleet.testing.simulated_cloud import CloudInstance
from benchfleet.testing.simulated_http import SimulatedApi, failed

_MILLION = 1_000_000


class RunPodApi(SimulatedApi):
    """Answers requests as RunPod does: pods by REST, types of GPUs by GraphQL."""

    def _answer(self, method: str, parts: SplitResult, key: str, body: bytes) -> tuple[int, Any]:
        path = parts.path.rstrip("/").split("/")[1:]
        if (one := self._of_own_key(key)) is not None:
            return self._of_itself(method, path, one)
        if (user := self.keys.get(key)) is None:
            return 401, {"error": "unauthorized"}
        match [method, *path]:
            case ["POST", "graphql"]:
                return self._query(user, json.loads(body)["query"])
            case ["POST", "v1", "pods"]:
                return self._create(user, json.loads(body))
            case ["GET", "v1", "pods"]:
                return self._list(user)
            case ["DELETE", "v1", "pods", id]:
                return self._destroy(user, id)
        return 404, {"error": "not found"}

    def _of_itself(self, method: str, path: list[str], one: CloudInstance) -> tuple[int, Any]:
        if path != ["v1", "pods", one.id]:
            return 403, {"error": "forbidden"}
        return self._destroy(one.owner, one.id) if method == "DELETE" else (200, _row(one))

    def _query(self, user: str, query: str) -> tuple[int, Any]:
        if "myself" in query:
            return 200, {"data": {"myself": {"id": user, "clientBalance": 25.0}}}
        if fault := self.cloud.fault("offers"):
            return failed(fault)
        types = [
            {
                "id": offer.id,
                "displayName": offer.gpu,
                "memoryInGb": offer.vram >> 30,
                "lowestPrice": {"uninterruptablePrice": offer.price / _MILLION / offer.count},
            }
            for offer in self.cloud.offers
        ]
        return 200, {"data": {"gpuTypes": types}}

    def _create(self, user: str, requested: Mapping[str, Any]) -> tuple[int, Any]:
        cloud = self.cloud
        fault = cloud.fault("create")
        cloud.creates.append(requested["name"])
        offer = next((one for one in cloud.offers if [one.id] == requested["gpuTypeIds"]), None)
        if fault == "refused" or offer is None:
            return 500, {"error": "There are no longer any instances available with this GPU"}
        if fault in ("away", "busy"):
            return failed(fault)
        one = cloud.add(offer, requested["name"], user)
        self._created(one, requested)
        return failed(fault) if fault else (201, _row(one))

    def _list(self, user: str) -> tuple[int, Any]:
        fault = self.cloud.fault("list")
        if fault == "short":
            return 200, {"pods": "soon"}
        return failed(fault) if fault else (200, [_row(one) for one in self.cloud.visible(user)])

    def _destroy(self, user: str, id: str) -> tuple[int, Any]:
        fault = self.cloud.fault("destroy")
        if fault in ("away", "busy"):
            return failed(fault)
        if fault != "ignored" and not self._end(user, id):
            return 404, {"error": "pod not found"}
        return failed(fault) if fault == "lost" else (204, {})


def _row(one: CloudInstance) -> dict[str, Any]:
    status = {"starting": "CREATED", "running": "RUNNING"}.get(one.state, "EXITED")
    began = datetime.fromtimestamp(one.began, timezone.utc).isoformat()
    return {
        "id": one.id,
        "name": one.label,
        "desiredStatus": status,
        "costPerHr": one.offer.hourly / _MILLION,
        "publicIp": one.address,
        "portMappings": {"22": one.port},
        "lastStartedAt": began,
    }
