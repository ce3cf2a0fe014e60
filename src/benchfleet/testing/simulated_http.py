"""An HTTP interface over a simulated cloud, without a network or behind a port of this machine."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import SplitResult, urlsplit

from benchfleet.testing.simulated_cloud import Cloud, CloudInstance

Answer = tuple[int, dict[str, str], bytes]
_HTML = b"<html><body>Bad gateway</body></html>"


class SimulatedApi(ABC):
    """Answers requests as a provider does, from the state of a cloud.

    `keys` has the user of each key. `requests` keeps the method and path of all requests. `created`
    and `ended` start and end what is behind an instance. Nothing waits.
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
                self.cloud.now = float(int(self._clock()))  # as exact as the Date of its answers
            self.requests.append((method, parts.path))
            key = headers.get("authorization", "").removeprefix("Bearer ")
            status, data = self._answer(method, parts, key, body)
            date = {"Date": formatdate(self.cloud.now, usegmt=True)}
            if isinstance(data, bytes):
                return status, {**date, "Content-Type": "text/html"}, data
            return status, {**date, "Content-Type": "application/json"}, json.dumps(data).encode()

    @abstractmethod
    def _answer(self, method: str, parts: SplitResult, key: str, body: bytes) -> tuple[int, Any]:
        """Status, and JSON or the bytes of a page."""

    def _of_own_key(self, key: str) -> CloudInstance | None:
        """The instance whose own key it is."""
        return next((i for i in self.cloud.instances.values() if key == i.key), None)

    def _end(self, user: str, id: str) -> bool:
        """Destroy an instance; whether the user has it."""
        one = self.cloud.instances.get(id)
        if one is None or one.owner != user:
            return False
        self.cloud.end(id)
        self._ended(one)
        return True


def failed(fault: str) -> tuple[int, Any]:
    """The answer for a fault: too many requests, or a page of a gateway."""
    if fault == "busy":
        return 429, b"API requests too frequent: endpoint threshold=2.5"
    return 502, _HTML


class ApiServer:
    """An API on a port of this machine."""

    def __init__(self, api: SimulatedApi, port: int = 0) -> None:
        """`port`: 0 takes a free one. Raises OSError."""

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, fields, body = api.answer(
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

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
