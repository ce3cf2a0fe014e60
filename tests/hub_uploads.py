"""A hub on loopback that takes commits, and serves what was committed."""

from __future__ import annotations

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from hubs import COMMIT, Hub


class UploadHub(Hub):
    """Keeps the files of each repository by ``datasets/OWNER/NAME`` or ``models/OWNER/NAME``."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.commits: list[str] = []

    def let_go(self) -> None:
        """Nothing waits here."""


class _Handler(BaseHTTPRequestHandler):
    server: UploadHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        place, _, rest = self.path.strip("/").partition("/resolve/")
        repository = place if place.startswith("datasets/") else f"models/{place}"
        name = rest.partition("/")[2]
        files = self.server.files.get(repository)
        if files is None or name not in files:
            code = "RepoNotFound" if files is None else "EntryNotFound"
            self._answer(404, b"", ("X-Error-Code", code))
            return
        content = files[name]
        etag = hashlib.sha256(content).hexdigest()
        self._answer(200, content, ("ETag", f'"{etag}"'), ("X-Repo-Commit", COMMIT))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path == "/api/repos/create":
            wanted = json.loads(body)
            owner = wanted.get("organization")
            name = f"{owner}/{wanted['name']}" if owner else wanted["name"]
            repository = f"{wanted.get('type', 'model')}s/{name}"
            is_new = repository not in self.server.files
            self.server.files.setdefault(repository, {})
            self.server.private.setdefault(repository, wanted.get("visibility") == "private")
            answer = {"url": f"{self.server.address}/{repository}", "name": name}
            self._json(200 if is_new else 409, answer)
        elif self.path == "/api/validate-yaml":
            self._json(200, {"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = [
                {"path": one["path"], "uploadMode": "regular"} for one in json.loads(body)["files"]
            ]
            self._json(200, {"files": [{**one, "shouldIgnore": False} for one in files]})
        else:
            repository = self.path.removeprefix("/api/").partition("/commit/")[0]
            lines = [json.loads(line) for line in body.splitlines()]
            for line in lines:
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.server.files[repository][line["value"]["path"]] = content
            self.server.commits.append(repository)
            url = f"{self.server.address}/{repository}/commit/{COMMIT}"
            self._json(200, {"commitUrl": url, "commitOid": COMMIT})

    def _json(self, status: int, value: Any) -> None:
        self._answer(status, json.dumps(value).encode(), ("Content-Type", "application/json"))

    def _answer(self, status: int, content: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for header in headers:
            self.send_header(*header)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
