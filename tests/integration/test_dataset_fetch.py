"""lm-eval's data from a hub on loopback: fetched once for a host, and told of where they cannot be.

The hub is a small fake that speaks the few requests which `datasets` makes for a repository of
one file, for those alone who have the token; the client is the real one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

EXAMPLES = Path(__file__).parents[2] / "examples" / "recall"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secretsecretsecret"  # noqa: S105 - of the fake alone
API = "/api/datasets/org/Rows"
FILE = "test.jsonl"
ROWS = b"".join(
    json.dumps({"context": f"K{n} " * 8, "question": "?K", "answer": n % 10}).encode() + b"\n"
    for n in range(6)
)
TASK = """\
include: EXAMPLES/tasks/recall_choice.yaml
task: rows
dataset_path: org/Rows
dataset_kwargs: {}
"""


class Hub(ThreadingHTTPServer):
    """Serves org/Rows; notes who asked for what."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str]] = []  # client, request
        self.others = threading.Event()  # a second client has asked: the rows wait for it
        self.fetching = threading.Event()  # the rows were asked for
        self.hold = 0.0  # seconds that the rows wait at most
        self.break_off = False  # whether the rows end in the middle

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fetches(self) -> int:
        return [request for _, request in self.asked].count(f"GET {FILE}")

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

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self._serve()

    def _serve(self) -> None:
        path = self.path.partition("?")[0]
        repository, _, place = path.partition("/resolve/")
        file = place.partition("/")[2]
        self._note(file or path)
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._answer(401, b"", "X-Error-Code", "GatedRepo")
        elif repository == "/datasets/org/Rows" and file == FILE:
            self._rows()
        elif file or not path.startswith(API):
            self._answer(404, b"", "X-Error-Code", "EntryNotFound")
        elif path.startswith(f"{API}/tree"):
            entry = {"type": "file", "path": FILE, "size": len(ROWS), "oid": _etag()}
            self._answer(200, json.dumps([entry]).encode())
        else:
            about = {"id": "org/Rows", "sha": COMMIT, "siblings": [{"rfilename": FILE}]}
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
        self._answer(200, data, "ETag", f'"{_etag()}"', length=len(ROWS))
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


def _etag() -> str:
    return hashlib.sha1(ROWS, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.others.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def environ(hub: Hub, tmp_path: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "TRANSFORMERS_"))
    }
    return {
        **kept,
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN": TOKEN,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HF_HUB_ETAG_TIMEOUT": "60",
        "HF_HUB_DOWNLOAD_TIMEOUT": "60",
        "NO_PROXY": "*",
    }


BUILD = """\
import os, sys
from pathlib import Path
from types import SimpleNamespace as Of
from benchfleet.benchmarks.lm_eval.harness import build_task
from benchfleet.benchmarks.lm_eval.tasks import own_task
from benchfleet.errors import CellFailure
loan = Of(model=Of(name_or_path=""), tokenizer=None)
session = Of(generation={}, repeat=0)
settings = {"metadata": None, "num_fewshot": None}
print("begins", flush=True)
try:
    task = build_task("rows", own_task(Path(sys.argv[1]), "rows"), session, loan, settings)
    print(len(task.eval_docs))
except CellFailure as error:
    print(error.kind, error.is_retryable, error)
"""
Build = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "rows.yaml").write_text(TASK.replace("EXAMPLES", str(EXAMPLES)))
    return folder


@pytest.fixture
def build(tasks: Path, environ: dict[str, str]) -> Build:
    """Starts a process that builds the task, under a name that the hub is told."""

    def start(client: str = "one", **more: str) -> subprocess.Popen[str]:
        named = {"HF_HUB_USER_AGENT_ORIGIN": f"client/{client}", **more}
        return subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tasks)],
            env={**environ, **named},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def _end(process: subprocess.Popen[str]) -> str:
    """The last line that a process says, once it has ended as it should."""
    said, complained = process.communicate(timeout=120)
    assert process.returncode == 0, complained
    assert TOKEN not in said + complained
    return said.splitlines()[-1]


def test_one_fetches_the_data_while_the_other_asks_the_hub_nothing(hub: Hub, build: Build):
    hub.hold = 60.0
    first = build("one")
    assert hub.fetching.wait(60)
    second = build("two")
    assert second.stdout is not None
    assert second.stdout.readline() == "begins\n"
    assert not hub.others.wait(4)
    hub.others.set()
    assert [_end(first), _end(second)] == ["6", "6"]
    assert hub.fetches() == 1


def test_where_the_one_who_fetches_is_killed_the_other_goes_on(hub: Hub, build: Build):
    hub.hold = 60.0
    first = build("one")
    assert hub.fetching.wait(60)
    second = build("two")
    assert second.stdout is not None
    assert second.stdout.readline() == "begins\n"
    first.kill()
    first.communicate(timeout=60)
    assert _end(second) == "6"
    assert hub.fetches() == 2


def test_data_of_the_cache_are_used_offline(hub: Hub, build: Build):
    assert _end(build()) == "6"
    hub.asked.clear()
    assert _end(build(HF_DATASETS_OFFLINE="1")) == "6"
    assert hub.asked == []


@pytest.mark.parametrize(
    "variable", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"]
)
def test_offline_the_missing_data_set_is_named_with_what_to_do(
    hub: Hub, build: Build, tasks: Path, variable: str
):
    with (tasks / "rows.yaml").open("a") as file:
        file.write("dataset_name: easy\n")
    said = _end(build(**{variable: "1"}))
    assert said.startswith("dataset_missing False rows: the data set org/Rows (config easy) is not")
    assert f"and {variable} is set" in said
    assert """python -c 'import datasets; datasets.load_dataset("org/Rows", "easy")'""" in said
    assert "local files (dataset_kwargs: {data_files: …})" in said
    assert hub.asked == []


def test_a_config_that_is_not_in_the_cache_is_named(build: Build, tasks: Path):
    assert _end(build()) == "6"
    with (tasks / "rows.yaml").open("a") as file:
        file.write("dataset_name: easy\n")
    said = _end(build(HF_HUB_OFFLINE="1"))
    assert said.startswith("dataset_missing False rows: the data set org/Rows (config easy) is not")


def test_data_that_are_not_for_this_user_say_so(build: Build):
    said = _end(build(HF_TOKEN="hf_of_somebody_else"))  # noqa: S106
    assert said.startswith("dataset_missing False rows cannot have the data set org/Rows")
    assert "set HF_TOKEN" in said
    assert "somebody" not in said


def test_a_fetch_that_breaks_off_may_be_tried_again(hub: Hub, build: Build):
    hub.break_off = True
    said = _end(build())
    assert said.startswith("dataset_missing True fetching the data set org/Rows of rows broke off")
    hub.break_off = False
    assert _end(build()) == "6"


CAMPAIGN = """\
campaign: study
matrix:
  models: [{name: tiny, path: EXAMPLES/model, model_kwargs: {dtype: float32}}]
  configs:
    dense: null
    streaming: {attention: [{sink: 4}, {local: 20}]}
  benchmarks:
    - lm_eval: {tasks: rows, include_path: ./tasks}
"""


def _run(folder: Path, environ: dict[str, str], *words: str, code: int = 0) -> str:
    """What ``benchfleet`` says; neither it nor any file that it leaves may hold the token."""
    (folder / "study.yaml").write_text(CAMPAIGN.replace("EXAMPLES", str(EXAMPLES)))
    done = subprocess.run(
        [sys.executable, "-m", "benchfleet", *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=200,
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert TOKEN not in said
    told = [
        str(file)
        for file in folder.rglob("*")
        if file.is_file() and TOKEN.encode() in file.read_bytes()
    ]
    assert told == []
    return said


@pytest.mark.usefixtures("tasks")
def test_two_slots_fetch_once_and_tell_the_token_nowhere(
    hub: Hub, environ: dict[str, str], tmp_path: Path
):
    _run(tmp_path, environ, "run", "study.yaml", "--cpu-slots", "2")
    assert hub.fetches() == 1
    results = tmp_path / "benchmark_results" / "study" / "tiny"
    assert sorted(place.parent.name for place in results.rglob("lm_eval_rows")) == [
        "dense",
        "streaming",
    ]


def test_a_cell_whose_failure_speaks_of_the_token_tells_it_nowhere(
    environ: dict[str, str], tasks: Path, tmp_path: Path
):
    (tasks / "leaks.py").write_text(
        "import os\n\ndef text(doc):\n    raise RuntimeError('sent ' + os.environ['HF_TOKEN'])\n"
    )
    with (tasks / "rows.yaml").open("a") as file:
        file.write("doc_to_text: !function leaks.text\n")
    words = ("run", "study.yaml", "--cpu-slots", "1", "--only", "configs=dense")
    _run(tmp_path, environ, *words, code=1)
    attempts = tmp_path / "benchmark_results" / "study" / ".attempts"
    failures = [json.loads(file.read_text()) for file in attempts.rglob("failure.json")]
    assert [failure["message"] for failure in failures] == ["RuntimeError: sent [token]"]
    assert "sent [token]" in failures[0]["trace"]


@pytest.mark.usefixtures("tasks")
def test_offline_a_campaign_whose_data_are_missing_is_refused_before_it_runs(
    hub: Hub, environ: dict[str, str], tmp_path: Path
):
    alone = {**environ, "HF_HUB_OFFLINE": "1"}
    said = _run(tmp_path, alone, "run", "study.yaml", "--cpu-slots", "1", code=2)
    assert "matrix.benchmarks[0].lm_eval.tasks" in said
    assert "the data set org/Rows is not in this host's cache" in said
    assert hub.asked == []
