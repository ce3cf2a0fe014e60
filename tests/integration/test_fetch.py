"""Fetching models from a hub on loopback, by processes that share a host.

The hub is a small fake that speaks the few requests which huggingface_hub makes; the client is
the real one, in processes of their own, since it reads its environment when it is imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchfleet.errors import CellFailure
from benchfleet.models.fetch import declared_digest, fetched_folder, wanted

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secretsecretsecret"  # noqa: S105 - of the fake alone
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": bytes(range(256)) * 4096,
    "pytorch_model.bin": b"the same weights again",
    "tokenizer.json": b"{}",
    "README.md": b"read me",
    "original/consolidated.00.pth": b"and again",
}
NEEDED = ["config.json", "model.safetensors", "tokenizer.json"]


class Hub(ThreadingHTTPServer):
    """Serves org/tiny, and org/gated to who has the token; counts what it is asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: Counter[str] = Counter()
        self.break_off = 0  # answers with the weights to cut short
        self.hold = threading.Event()  # weights wait for it
        self.hold.set()
        self.holding = threading.Event()  # weights were asked for
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fetched(self, name: str) -> int:
        return self.asked[f"GET {name}"]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed while it read is part of the test."""


class Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = self.path.partition("?")[0]
        api = path.startswith("/api/models/")
        name, _, rest = path.removeprefix("/api/models").strip("/").partition("/resolve/")
        parts = path.strip("/").split("/")
        name = "/".join(parts[2:4] if api else parts[:2])
        if name == "org/odd":
            self._refuse(400, "")
        elif name not in ("org/tiny", "org/gated"):
            self._refuse(401, "RepoNotFound")
        elif api and parts[4] == "revision":
            known = parts[5] in ("main", COMMIT)
            self._json({"sha": COMMIT, "id": name}) if known else self._refuse(
                404, "RevisionNotFound"
            )
        elif name == "org/gated" and self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._refuse(401, "GatedRepo")
        elif api:
            self._json(
                [
                    {"type": "file", "path": file, "size": len(data), "oid": _etag(data)}
                    for file, data in FILES.items()
                ]
            )
        else:
            self._file(rest.partition("/")[2])

    def _file(self, file: str) -> None:
        data = FILES[file]
        with self.server.lock:
            self.server.asked[f"{self.command} {file}"] += 1
        if file == "model.safetensors" and self.command == "GET":
            self.server.holding.set()
            self.server.hold.wait(60)
        start = 0
        if asked := self.headers["Range"]:
            start = int(asked.removeprefix("bytes=").partition("-")[0])
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{_etag(data)}"')
        self.send_header("X-Repo-Commit", COMMIT)
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


def _etag(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.hold.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def environ(hub: Hub, tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return {
        **kept,
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "hf"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_ETAG_TIMEOUT": "60",
        "HF_HUB_DOWNLOAD_TIMEOUT": "60",
        "NO_PROXY": "*",
    }


FETCH = """\
import sys
from benchfleet.errors import CellFailure
from benchfleet.models.fetch import fetched_folder
try:
    print(fetched_folder(sys.argv[1], sys.argv[2]))
except (ValueError, CellFailure) as error:
    print(type(error).__name__, error, file=sys.stderr)
    sys.exit(1)
"""


def _start(environ: dict[str, str], source: str = "org/tiny") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, source, COMMIT],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    said, complained = process.communicate(timeout=120)
    return process.returncode, said, complained


def _fetch(environ: dict[str, str], source: str = "org/tiny") -> tuple[int, str, str]:
    return _end(_start(environ, source))


def test_a_name_is_resolved_without_fetching_and_then_fetched_once(hub, environ):
    assert declared_digest("org/tiny", environ=environ) == COMMIT
    assert hub.fetched("model.safetensors") == 0
    code, said, complained = _fetch(environ)
    assert code == 0, complained
    folder = Path(said.strip())
    assert sorted(file.name for file in folder.iterdir()) == NEEDED
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert _fetch(environ)[:2] == (0, said)
    assert {name: hub.fetched(name) for name in FILES} == {
        name: int(name in NEEDED) for name in FILES
    }


def test_what_was_fetched_is_found_offline_by_its_name(hub, environ):
    code, said, complained = _fetch(environ)
    assert code == 0, complained
    hub.asked.clear()
    alone = {**environ, "HF_HUB_OFFLINE": "1"}
    assert declared_digest("org/tiny", environ=alone) == COMMIT
    assert fetched_folder("org/tiny", COMMIT, environ=alone) == Path(said.strip())
    assert not hub.asked


def test_one_fetches_while_the_others_wait(hub, environ):
    hub.hold.clear()
    several = [_start(environ) for _ in range(3)]
    assert hub.holding.wait(60)
    hub.hold.set()
    ends = [_end(process) for process in several]
    assert [code for code, _, _ in ends] == [0, 0, 0], ends
    assert len({said for _, said, _ in ends}) == 1
    assert hub.fetched("model.safetensors") == hub.fetched("tokenizer.json") == 1


def test_where_the_one_who_fetches_dies_the_next_takes_over(hub, environ):
    hub.hold.clear()
    first = _start(environ)
    assert hub.holding.wait(60)
    second = _start(environ)
    first.kill()
    first.communicate(timeout=60)
    hub.hold.set()
    code, said, complained = _end(second)
    assert code == 0, complained
    folder = Path(said.strip())
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert sorted(file.name for file in folder.iterdir()) == NEEDED


def test_a_connection_that_breaks_off_in_the_middle_leaves_no_broken_model(hub, environ):
    hub.break_off = 1
    code, _, complained = _fetch(environ)
    if code:
        assert "CellFailure fetching org/tiny from the hub broke off" in complained
        code, _, complained = _fetch(environ)
    assert code == 0, complained
    assert hub.fetched("model.safetensors") == 2
    folder = fetched_folder("org/tiny", COMMIT, environ=environ)
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_a_gated_model_wants_a_token_which_is_never_told(hub, environ):
    with pytest.raises(ValueError, match=r"org/gated is gated: ask for access .* set HF_TOKEN"):
        declared_digest("org/gated", environ=environ)
    wrong = {**environ, "HF_TOKEN": "hf_wrongwrong"}
    with pytest.raises(ValueError, match="as the user whose HF_TOKEN is set") as caught:
        declared_digest("org/gated", environ=wrong)
    assert "hf_wrong" not in str(caught.value)
    code, _, complained = _fetch(wrong, "org/gated")
    assert (code, "org/gated is gated" in complained) == (1, True), complained
    assert "hf_wrong" not in complained

    right = {**environ, "HF_TOKEN": TOKEN}
    assert declared_digest("org/gated", environ=right) == COMMIT
    code, said, complained = _fetch(right, "org/gated")
    assert code == 0, complained
    assert TOKEN not in said + complained
    kept = [file for top in ("HF_HOME", "XDG_CACHE_HOME") for file in Path(right[top]).rglob("*")]
    assert not [file for file in kept if file.is_file() and TOKEN.encode() in file.read_bytes()]


def test_a_token_that_was_pasted_with_a_line_break_is_honoured_and_not_told(environ):
    broken = {**environ, "HF_TOKEN": f"{TOKEN[:9]}\n{TOKEN[9:]}"}
    assert declared_digest("org/gated", environ=broken) == COMMIT


def test_a_token_left_by_a_login_is_honoured(environ, tmp_path: Path):
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text(TOKEN + "\n")
    assert declared_digest("org/gated", environ=environ) == COMMIT


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("org/none", "the hub has no model org/none; if it is private, set HF_TOKEN"),
        ("org/tiny@v9", "the hub has no revision 'v9' of org/tiny"),
    ],
)
def test_what_the_hub_does_not_have_is_told_when_the_campaign_is_read(environ, source, said):
    with pytest.raises(ValueError, match=said):
        declared_digest(source, environ=environ)


def test_offline_the_way_out_is_told(hub, environ):
    alone = {**environ, "HF_HUB_OFFLINE": "1"}
    with pytest.raises(ValueError, match=r"hf download org/tiny \(.*HF_HUB_OFFLINE is set\)"):
        declared_digest("org/tiny", environ=alone)
    with pytest.raises(ValueError, match=r"hf download org/tiny .*HF_HUB_OFFLINE is set"):
        fetched_folder("org/tiny", COMMIT, environ=alone)
    assert not hub.asked


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("http://127.0.0.1:9", "Connection refused"),
        ("ftp://127.0.0.1", "HF_ENDPOINT is no web address: ftp://127.0.0.1"),
        ("nonsense", "HF_ENDPOINT is no web address: nonsense"),
    ],
)
def test_without_a_network_the_way_out_is_told(environ, endpoint, said):
    lost = {**environ, "HF_ENDPOINT": endpoint}
    told = rf"hf download org/tiny \(the hub could not be asked: {said}\)"
    with pytest.raises(ValueError, match=told):
        declared_digest("org/tiny", environ=lost)


def test_a_hub_that_answers_strangely_is_worth_another_try(environ):
    code, _, complained = _fetch(environ, "org/odd")
    assert code == 1
    assert "CellFailure fetching org/odd from the hub broke off" in complained


def test_a_fetch_cut_short_is_not_taken_for_a_model(environ, tmp_path: Path):
    """All the weights came, and then the process died before the tokenizer did."""
    folder = Path(environ["HF_HOME"]) / "hub" / "models--org--tiny" / "snapshots" / COMMIT
    calls = []

    def dies(name: str, commit: str, cache: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("config.json", "model.safetensors"):
            (folder / file).write_bytes(FILES[file])
        raise CellFailure(stage="load", kind="error", message="cut")

    def ends_well(name: str, commit: str, cache: Path) -> None:
        calls.append((name, commit))

    with pytest.raises(CellFailure, match="cut"):
        fetched_folder("org/tiny", COMMIT, environ=environ, download=dies)
    for _ in range(2):
        found = fetched_folder("org/tiny", COMMIT, environ=environ, download=ends_well)
        assert found == folder
    assert calls == [("org/tiny", COMMIT)]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (list(FILES), NEEDED),
        (["config.json", "pytorch_model.bin"], ["config.json", "pytorch_model.bin"]),
        (
            ["model-1.safetensors", "consolidated.safetensors", "model.safetensors.index.json"],
            ["model-1.safetensors", "model.safetensors.index.json"],
        ),
        (["consolidated.safetensors"], ["consolidated.safetensors"]),
        (
            ["additional_chat_templates/x.jinja", "onnx/config.json", "a.gguf", "m.safetensors"],
            ["additional_chat_templates/x.jinja", "m.safetensors"],
        ),
    ],
)
def test_one_format_of_weights_is_wanted_and_all_that_describes_them(files, expected):
    assert wanted(files) == expected
