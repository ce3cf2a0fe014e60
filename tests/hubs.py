"""Hubs on loopback that speak the few requests which clients make: the models' and the data sets'.

The clients that tests start are the real ones, in processes of their own, since they read their
environment when they are imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secretsecretsecret"  # noqa: S105 - of the fakes alone
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": bytes(range(256)) * 4096,
    "pytorch_model.bin": b"the same weights again",
    "tokenizer.json": b"{}",
    "README.md": b"read me",
    "original/consolidated.00.pth": b"and again",
}
_LARGE_BYTES = 100_000
ROWS_API = "/api/datasets/org/Rows"
ROWS_FILE = "test.jsonl"
ROWS = b"".join(
    json.dumps({"context": f"K{n} " * 8, "question": "?K", "answer": n % 10}).encode() + b"\n"
    for n in range(6)
)


class Hub(ThreadingHTTPServer):
    """What the two have in common."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed while it read is part of the test."""

    def let_go(self) -> None:
        """Have nothing wait any more."""
        raise NotImplementedError


@contextmanager
def serving(hub: Hub) -> Iterator[None]:
    """While it lasts, the hub answers."""
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        hub.let_go()
        hub.shutdown()
        hub.server_close()
        thread.join()


def client_of(hub: Hub, folder: Path) -> dict[str, str]:
    """The environment of a process that knows this hub alone, and keeps below the folder what it
    fetches."""
    own = ("HF_", "TRANSFORMERS_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(own)},
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(folder / "hf"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_ETAG_TIMEOUT": "60",
        "HF_HUB_DOWNLOAD_TIMEOUT": "60",
        "NO_PROXY": "*",
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.serve()

    def do_GET(self) -> None:
        self.serve()

    def serve(self) -> None:
        raise NotImplementedError


def _etag(data: bytes) -> str:
    """As the hub has it: SHA-256 for a large file, git's id for any other."""
    if len(data) > _LARGE_BYTES:
        return hashlib.sha256(data).hexdigest()
    blob = f"blob {len(data)}\0".encode() + data
    return hashlib.sha1(blob, usedforsecurity=False).hexdigest()


def commit_of(name: str) -> str:
    """The one commit of a model."""
    if name == "org/tiny":
        return COMMIT
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()


class ModelHub(Hub):
    """Serves org/tiny, and org/gated to who has the token; counts what it is asked. `models`: the
    files of each; `sizes` of files that are not what the listing says."""

    def __init__(
        self,
        models: Mapping[str, Mapping[str, bytes]] | None = None,
        sizes: Mapping[str, int] = {},
    ) -> None:
        super().__init__(_Models)
        self.models = models or {"org/tiny": FILES, "org/gated": FILES}
        self.sizes = sizes  # by model and file, such as org/tiny/config.json
        self.damage = 0  # answers with the weights that have a wrong byte
        self.asked: Counter[str] = Counter()
        self.break_off = 0  # answers with the weights to cut short
        self.hold = threading.Event()  # weights wait for it
        self.hold.set()
        self.holding = threading.Event()  # weights were asked for
        self.lock = threading.Lock()

    def fetched(self, name: str) -> int:
        return self.asked[f"GET {name}"]

    def let_go(self) -> None:
        self.hold.set()


class _Models(_Handler):
    server: ModelHub

    def serve(self) -> None:
        path = self.path.partition("?")[0]
        api = path.startswith("/api/models/")
        name, _, rest = path.removeprefix("/api/models").strip("/").partition("/resolve/")
        parts = path.strip("/").split("/")
        name = "/".join(parts[2:4] if api else parts[:2])
        if name == "org/odd":
            self._refuse(400, "")
        elif name not in self.server.models:
            self._refuse(401, "RepoNotFound")
        elif api and parts[4] == "revision":
            known = parts[5] in ("main", commit := commit_of(name))
            self._json({"sha": commit, "id": name}) if known else self._refuse(
                404, "RevisionNotFound"
            )
        elif name == "org/gated" and self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._refuse(401, "GatedRepo")
        elif api:
            self._json(
                [
                    {
                        "type": "file",
                        "path": file,
                        "size": self.server.sizes.get(f"{name}/{file}", len(data)),
                        "oid": _etag(data),
                    }
                    for file, data in self.server.models[name].items()
                ]
            )
        else:
            self._file(name, rest.partition("/")[2])

    def _file(self, name: str, file: str) -> None:
        files = self.server.models[name]
        if file not in files:
            self._refuse(404, "EntryNotFound")
            return
        data = files[file]
        etag = _etag(data)
        with self.server.lock:
            self.server.asked[f"{self.command} {file}"] += 1
            if file == "model.safetensors" and self.command == "GET" and self.server.damage:
                self.server.damage -= 1
                data = data[:-1] + bytes([data[-1] ^ 1])
        if file == "model.safetensors" and self.command == "GET":
            self.server.holding.set()
            self.server.hold.wait(60)
        start = 0
        if asked := self.headers["Range"]:
            start = int(asked.removeprefix("bytes=").partition("-")[0])
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", commit_of(name))
        self.send_header("Accept-Ranges", "bytes")
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if self.command == "GET":
            with self.server.lock:
                cut = file == "model.safetensors" and self.server.break_off > 0
                self.server.break_off -= cut
            self.wfile.write(data[start : len(data) // 2] if cut else data[start:])
            self.close_connection = cut

    def _json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", "refused")
        self.send_header("Content-Length", "0")
        self.end_headers()


class DatasetHub(Hub):
    """Serves org/Rows, a data set of one file, to who has the token; notes who asked for what."""

    def __init__(self) -> None:
        super().__init__(_Rows)
        self.asked: list[tuple[str, str]] = []  # client, request
        self.others = threading.Event()  # a second client has asked: the rows wait for it
        self.fetching = threading.Event()  # the rows were asked for
        self.hold = 0.0  # seconds that the rows wait at most
        self.break_off = False  # whether the rows end in the middle

    def fetches(self) -> int:
        return [request for _, request in self.asked].count(f"GET {ROWS_FILE}")

    def let_go(self) -> None:
        self.others.set()


class _Rows(_Handler):
    server: DatasetHub

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.serve()

    def serve(self) -> None:
        path = self.path.partition("?")[0]
        repository, _, place = path.partition("/resolve/")
        file = place.partition("/")[2]
        self._note(file or path)
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._answer(401, b"", "X-Error-Code", "GatedRepo")
        elif repository == "/datasets/org/Rows" and file == ROWS_FILE:
            self._rows()
        elif file or not path.startswith(ROWS_API):
            self._answer(404, b"", "X-Error-Code", "EntryNotFound")
        elif path.startswith(f"{ROWS_API}/tree"):
            entry = {"type": "file", "path": ROWS_FILE, "size": len(ROWS), "oid": _etag(ROWS)}
            self._answer(200, json.dumps([entry]).encode())
        else:
            about = {"id": "org/Rows", "sha": COMMIT, "siblings": [{"rfilename": ROWS_FILE}]}
            self._answer(200, json.dumps({**about, "tags": [], "private": False}).encode())

    def _note(self, what: str) -> None:
        named = re.search(r"client/(\w+)", self.headers["User-Agent"])
        client = named[1] if named else ""  # not every request says
        self.server.asked.append((client, f"{self.command} {what}"))
        if len({one for one, _ in self.server.asked if one}) > 1:
            self.server.others.set()

    def _rows(self) -> None:
        if self.command == "GET":
            self.server.fetching.set()
            self.server.others.wait(self.server.hold)
        data = ROWS[: len(ROWS) // 2] if self.server.break_off else ROWS
        self._answer(200, data, "ETag", f'"{_etag(ROWS)}"', length=len(ROWS))
        self.close_connection = self.server.break_off

    def _answer(self, status: int, data: bytes, *header: str, length: int | None = None) -> None:
        self.send_response(status)
        if header:
            self.send_header(*header)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
