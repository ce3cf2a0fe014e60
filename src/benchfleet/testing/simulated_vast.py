"""The HTTP interface of Vast.ai over a `Cloud`, with its faults: for tests and for a first look.

`VastApi.answer` waits for nothing. `VastServer` puts it behind a port of this machine.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from benchfleet.providers.base import GpuOffer
from benchfleet.testing.simulated_cloud import Cloud, CloudInstance

Answer = tuple[int, dict[str, str], bytes]
_MILLION = 1_000_000
_HTML = b"<html><body>Bad gateway</body></html>"


class VastApi:
    """Answers requests as Vast.ai does, from the state of a cloud.

    `keys` has the user of each key. `requests` keeps the method and path of all requests. `created`
    and `ended` start and end what is behind an instance.
    """

    def __init__(
        self,
        cloud: Cloud,
        keys: Mapping[str, str] | None = None,
        *,
        clock: Callable[[], float] | None = None,
        created: Callable[[CloudInstance, Mapping[str, Any]], None] = lambda one, body: None,
        ended: Callable[[CloudInstance], None] = lambda one: None,
    ) -> None:
        self.cloud, self.keys = cloud, keys or {"key": "me"}
        self._clock, self._created, self._ended = clock, created, ended
        self.requests: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Status, headers and body of the answer to one request."""
        with self._lock:
            parts = urlsplit(target)
            if self._clock is not None:
                self.cloud.now = self._clock()
            self.requests.append((method, parts.path))
            status, data = self._answer(method, parts, headers, body)
            date = {"Date": formatdate(self.cloud.now, usegmt=True)}
            if isinstance(data, bytes):
                return status, {**date, "Content-Type": "text/html"}, data
            return status, {**date, "Content-Type": "application/json"}, json.dumps(data).encode()

    def _answer(
        self, method: str, parts: Any, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Any]:
        key = headers.get("authorization", "").removeprefix("Bearer ")
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

    def _of_own_key(self, key: str) -> CloudInstance | None:
        """The instance whose own key it is."""
        return next((i for i in self.cloud.instances.values() if key == instance_key(i)), None)

    def _of_itself(self, method: str, path: list[str], one: CloudInstance) -> tuple[int, Any]:
        """What an instance may do with its own key: look at itself, and destroy itself."""
        if path != ["instances", one.id]:
            return 403, {"success": False, "error": "no_permission"}
        if method == "DELETE":
            return self._destroy(one.owner, one.id)
        return 200, {"instances": _instance_row(one)}

    def _offers(self, query: Mapping[str, Any]) -> tuple[int, Any]:
        if fault := self.cloud.fault("offers"):
            return _failed(fault)
        gpu_name = query["gpu_name"]["eq"]
        rows = [_offer_row(one) for one in self.cloud.offers if one.gpu == gpu_name]
        return 200, {"offers": rows}

    def _create(self, user: str, id: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        cloud = self.cloud
        fault = cloud.fault("create")
        cloud.creates.append(body["label"])
        offer = next((one for one in cloud.offers if one.id == id), None)
        if fault == "refused" or offer is None:
            return 404, {"success": False, "error": "no_such_ask", "msg": "no such ask"}
        if fault in ("away", "busy"):
            return _failed(fault)
        one = cloud.add(offer, body["label"], user)
        self._created(one, body)
        if fault == "broken":
            one.state = "stopped"
            return 400, {"success": False, "error": "bid_too_low", "new_contract": one.id}
        return _failed(fault) if fault else (200, {"success": True, "new_contract": int(one.id)})

    def _list(self, user: str, query: Mapping[str, str]) -> tuple[int, Any]:
        fault = self.cloud.fault("list")
        if fault not in ("", "short"):
            return _failed(fault)
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
            return _failed(fault)
        one = self.cloud.instances.get(id)
        if one is None or one.owner != user:
            return 404, {"success": False, "error": "no_such_instance"}
        if fault != "ignored":
            self.cloud.end(id)
            self._ended(one)
        return _failed(fault) if fault == "lost" else (200, {"success": True})


def instance_key(one: CloudInstance) -> str:
    """The key that an instance has of itself."""
    return f"own-key-of-{one.id}-{one.label}"


def _failed(fault: str) -> tuple[int, Any]:
    if fault == "busy":
        return 429, b"API requests too frequent: endpoint threshold=2.5"
    return 502, _HTML


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


class VastServer:
    """The API on a port of this machine."""

    def __init__(self, api: VastApi) -> None:
        answer = api.answer

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, fields, body = answer(
                    self.command, self.path, headers, self.rfile.read(size)
                )
                self.send_response_only(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = _serve

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


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
    server = VastServer(VastApi(cloud, clock=time.time))
    print(f"a simulated Vast.ai at {server.url}; its key is 'key'", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.close()


if __name__ == "__main__":
    main()
