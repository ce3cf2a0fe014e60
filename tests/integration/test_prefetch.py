"""``benchfleet fetch`` and what ``plan`` says is missing, with hubs on loopback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchfleet import prefetch
from benchfleet.domain.humanize import sized
from benchfleet.download import Download, from_dict
from benchfleet.models.fetch import HubModel
from hubs import COMMIT, FILES, TOKEN, DatasetHub, ModelHub, client_of, serving
from sshd import Sshd

COMMAND = [sys.executable, "-m", "benchfleet.cli.main"]
EXAMPLES = Path(__file__).parents[2] / "examples" / "recall"
STUDY = """\
campaign: s
matrix:
  models: [org/tiny]
  configs: {dense: null}
  benchmarks: [recall]
"""
WEIGHTS = "model.safetensors"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    hub = ModelHub()
    with serving(hub):
        yield hub


@pytest.fixture
def environ(hub: ModelHub, tmp_path: Path) -> dict[str, str]:
    return client_of(hub, tmp_path)


def runner(folder: Path, environ: dict[str, str]) -> Run:
    def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def run(tmp_path: Path, environ: dict[str, str]) -> Run:
    (tmp_path / "study.yaml").write_text(STUDY)
    return runner(tmp_path, environ)


def snapshot(environ: dict[str, str]) -> Path:
    return Path(environ["HF_HOME"], "hub", "models--org--tiny", "snapshots", COMMIT)


def test_a_plan_says_what_is_missing_and_how_large_it_is_and_fetch_brings_it(
    hub: ModelHub, environ: dict[str, str], run: Run
) -> None:
    planned = json.loads(run("plan", "study.yaml", "--json").stdout)
    size = sum(len(FILES[name]) for name in ("config.json", WEIGHTS, "tokenizer.json"))
    assert planned["missing"] == [{"kind": "model", "name": "org/tiny", "size": size}]
    text = run("plan", "study.yaml").stdout
    assert f"missing here: model org/tiny ({sized(size)})" in text
    assert "benchfleet fetch study.yaml" in text
    assert hub.fetched(WEIGHTS) == 0
    fetched = run("fetch", "study.yaml").stdout
    assert "[1/1] model org/tiny: here" in fetched
    assert (snapshot(environ) / WEIGHTS).read_bytes() == FILES[WEIGHTS]
    run("fetch", "study.yaml")
    assert hub.fetched(WEIGHTS) == 1
    assert "missing here" not in run("plan", "study.yaml").stdout


def test_a_fetch_that_broke_off_is_named_and_continues(
    hub: ModelHub, environ: dict[str, str], run: Run
) -> None:
    hub.break_off = 10
    failed = run("fetch", "study.yaml", code=1).stdout
    assert "this host: 1 problem, first: org/tiny: fetching org/tiny from the hub broke" in failed
    assert "missing: model org/tiny" in run("fetch", "study.yaml", "--dry-run").stdout
    hub.break_off = 0
    run("fetch", "study.yaml")
    assert (snapshot(environ) / WEIGHTS).read_bytes() == FILES[WEIGHTS]


def test_an_interrupted_fetch_ends_and_the_next_one_continues(
    hub: ModelHub, environ: dict[str, str], run: Run, tmp_path: Path
) -> None:
    hub.hold.clear()
    process = subprocess.Popen(
        [*COMMAND, "fetch", "study.yaml"],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert hub.holding.wait(120)
    process.send_signal(signal.SIGINT)
    hub.hold.set()
    _, complained = process.communicate(timeout=120)
    assert process.returncode == 130, complained
    assert "Traceback" not in complained
    run("fetch", "study.yaml")
    assert (snapshot(environ) / WEIGHTS).read_bytes() == FILES[WEIGHTS]


def data_set_study(folder: Path) -> None:
    """A campaign that reads the data set org/Rows."""
    pytest.importorskip("lm_eval")
    task = (
        f"include: {EXAMPLES}/tasks/recall_choice.yaml\ntask: rows\n"
        "dataset_path: org/Rows\ndataset_kwargs: {}\n"
    )
    (folder / "tasks").mkdir()
    (folder / "tasks" / "rows.yaml").write_text(task)
    study = STUDY.replace("[org/tiny]", f"[{{name: m, path: {EXAMPLES}/model}}]")
    study = study.replace("[recall]", "[{lm_eval: {tasks: rows, include_path: ./tasks}}]")
    (folder / "study.yaml").write_text(study)


def test_a_fetch_from_a_hub_that_cannot_be_reached_ends_with_its_exit_code(
    environ: dict[str, str], tmp_path: Path
) -> None:
    data_set_study(tmp_path)
    with socket.socket() as refusing:  # bound, so that nobody else takes the port
        refusing.bind(("127.0.0.1", 0))
        environ["HF_ENDPOINT"] = f"https://127.0.0.1:{refusing.getsockname()[1]}"
        del environ["NO_PROXY"]  # behind a proxy nobody knows what can be reached
        run = runner(tmp_path, environ)
        for _ in range(8):  # a thread in OpenSSL crashed many a process that ended then
            assert "127.0.0.1 cannot be reached" in run("fetch", "study.yaml", code=1).stdout


def test_no_thread_is_left_once_a_fetch_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "_REPORT_EVERY_S", 0.0)
    monkeypatch.setattr(prefetch, "unreachable_hub", lambda environ: "")
    asked, broke_off = threading.Event(), threading.Event()

    class Slow(Download):
        kind = "file"

        def is_here(self, environ: Mapping[str, str]) -> bool:
            return False

        def fetch(self, environ: Mapping[str, str]) -> None:
            assert asked.wait(60)
            broke_off.set()
            raise OSError("broke off")

        def size(self, environ: Mapping[str, str]) -> int | None:
            asked.set()
            assert broke_off.wait(60)
            return sum(range(10**6))  # while the fetch ends

    before = threading.active_count()
    assert len(prefetch.fetch_all([Slow()], {}, print)) == 1
    assert threading.active_count() == before


def test_data_sets_are_fetched_too(tmp_path: Path) -> None:
    data_set_study(tmp_path)
    hub = DatasetHub()
    with serving(hub):
        run = runner(tmp_path, {**client_of(hub, tmp_path), "HF_TOKEN": TOKEN})
        assert "missing here: data set org/Rows" in run("plan", "study.yaml").stdout
        assert "[1/1] data set org/Rows: here" in run("fetch", "study.yaml").stdout
        assert "nothing is missing here" in run("fetch", "study.yaml", "--dry-run").stdout
        assert hub.fetches() == 1


def test_hosts_of_an_inventory_fetch_by_themselves(
    environ: dict[str, str], run: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sshd = Sshd(tmp_path_factory.mktemp("sshd"))
    sshd.start()
    try:
        there = {**environ, "HF_HOME": str(tmp_path / "there"), "XDG_CACHE_HOME": str(tmp_path)}
        python = tmp_path / "python"
        names = ("HF_ENDPOINT", "HF_HOME", "XDG_CACHE_HOME", "NO_PROXY")
        exports = "".join(f"export {name}='{there[name]}'\n" for name in names)
        python.write_text(f'#!/bin/sh\n{exports}exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        hosts: dict[str, Any] = {}
        for host in (sshd.host("lab1", python=str(python)), sshd.host("lab2", python="/no/python")):
            names_of_host = ("address", "port", "user", "identity", "python", "folder")
            hosts[host.name] = {name: getattr(host, name) for name in names_of_host}
        (tmp_path / "machines.yaml").write_text(json.dumps({"hosts": hosts}))
        said = run("fetch", "study.yaml", "--machines", "machines.yaml", code=1).stdout
        assert "lab1  [1/1] model org/tiny: here" in said
        assert "lab2: 1 problem" in said
        assert "hosts bootstrap" in said
        assert (snapshot(there) / WEIGHTS).read_bytes() == FILES[WEIGHTS]
        assert not snapshot(environ).exists()
    finally:
        sshd.kill()


def test_a_download_survives_the_way_to_another_host() -> None:
    one = HubModel(source="org/tiny", commit=COMMIT)
    assert from_dict(json.loads(json.dumps(one.to_dict()))) == one
    with pytest.raises(ValueError, match="no download"):
        from_dict({"class": "pathlib:Path"})
