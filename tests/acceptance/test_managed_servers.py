"""Campaigns whose models get a server that benchfleet itself starts and ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from benchfleet.testing.simulated_server import SimulatedServer
from stand_in_servers import llama_server

from .conftest import User, samples_kept, until

MODEL = Path(__file__).parents[2] / "examples" / "recall" / "model"
THREE = """\
campaign: study
defaults: {generation: {max_new_tokens: 8}}
matrix:
  models:
    - {name: direct, adapter: transformers, path: %(model)s, model_kwargs: {dtype: float32}}
    - name: managed
      adapter: transformers_serve
      path: %(model)s
      api: completions
      server: {args: [--dtype, float32]}
    - {name: api, adapter: openai, model: simulated, url: "%(url)s/v1"}
  configs: {dense: null}
  benchmarks: [recall: {samples: 12, subsets: ["64"]}]
"""


def answers(user: User, model: str) -> dict[str, str]:
    (file,) = (user.results / model).glob("dense/*/samples.jsonl")
    records = map(json.loads, file.read_text().splitlines())
    return {record["id"]: record["predicted_answer"] for record in records}


def test_one_run_has_a_model_here_its_managed_server_and_an_api(user: User) -> None:
    with SimulatedServer() as server:
        user.write(THREE % {"model": MODEL, "url": server.url})
        user.run("run", "study.yaml", "--cpu-slots", "1")
    assert len(user.published()) == 3
    cells = {
        model: json.loads(next((user.results / model).glob("dense/*/cell.json")).read_text())
        for model in ("direct", "managed", "api")
    }
    devices = [cell["provenance"]["device"] for cell in cells.values()]
    assert devices == ["cpu:0", "cpu:0", server.url.replace("http://", "endpoint:")]
    direct, managed = answers(user, "direct"), answers(user, "managed")
    assert managed == direct
    assert len(direct) == 12
    assert set(answers(user, "api")) == set(direct)
    provenance = cells["managed"]["provenance"]["model"]
    assert provenance["command"][:2] == ["transformers", "serve"]
    assert provenance["load_seconds"] > 0


GGUF = """\
campaign: study
defaults: {generation: {max_new_tokens: 4}, limits: {tries: 1}}
matrix:
  models:
    - name: tiny-gguf
      adapter: llama_cpp
      path: ./tiny.gguf
      requests_at_once: 1
      server: {args: [--gap-ms, "%d"]}
  configs: {dense: null}
  benchmarks: [recall: {samples: 14, subsets: ["64"]}]
"""


@pytest.fixture
def llama_cpp(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.write("weights", "tiny.gguf")
    program = llama_server(user.folder / "bin")
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


def servers_of(user: User) -> list[int]:
    """The processes of servers that opened this user's model."""
    model = str(user.folder / "tiny.gguf").encode()
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if model in words and b"--gap-ms" in words:
                    pids.append(int(folder.name))
    return pids


@pytest.mark.usefixtures("llama_cpp")
def test_a_killed_runner_leaves_no_server_and_the_next_run_goes_on(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "4")
    user.write(GGUF % 100)
    run = user.start("run", "study.yaml", "--cpu-slots", "1")
    until(lambda: samples_kept(user) >= 2)
    assert len(servers_of(user)) == 1
    run.kill()
    run.wait()
    until(lambda: not servers_of(user))
    user.write(GGUF % 0)  # other arguments are another model
    plan = user.run("plan", "study.yaml", "--cpu-slots", "1").stdout
    assert "1 to run" in plan
    assert f"llama-server -m {user.folder}/tiny.gguf --host 127.0.0.1 --port {{port}}" in plan
    user.write(GGUF % 100)
    user.run("run", "study.yaml", "--cpu-slots", "1")
    (place,) = user.published()
    cell = json.loads((user.results / place / "cell.json").read_text())
    assert cell["provenance"]["resumed_samples"] >= 2
    assert servers_of(user) == []


@pytest.mark.usefixtures("llama_cpp")
def test_a_killed_server_is_named_and_the_retry_starts_another(user: User) -> None:
    user.write((GGUF % 100).replace("tries: 1", "tries: 2"))
    run = user.start("run", "study.yaml", "--cpu-slots", "1")
    until(lambda: samples_kept(user) >= 2)
    (server,) = servers_of(user)
    os.kill(server, signal.SIGKILL)
    assert run.wait(120) == 0
    (failure,) = (user.results / ".attempts").glob("*/*/failure.json")
    assert json.loads(failure.read_text())["kind"] == "server_died"


@pytest.mark.usefixtures("llama_cpp")
def test_a_server_that_cannot_start_is_named_with_its_log_and_the_next_run_goes_on(
    user: User,
) -> None:
    study = GGUF % 0
    (user.folder / "bin" / "port-taken").touch()
    user.write(study.replace("server: {", "server: {start_timeout: 60s, "))  # no other model
    user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    failures = user.run("failures", "study.yaml").stdout
    assert "setup: server_died" in failures
    (file,) = (user.results / ".attempts").glob("*/*/failure.json")
    message = json.loads(file.read_text())["message"]
    assert "took its port, 3 times" in message
    assert "address already in use" in message
    assert servers_of(user) == []
    (user.folder / "bin" / "port-taken").unlink()
    user.write(study)
    user.run("retry", "study.yaml")
    user.run("run", "study.yaml", "--cpu-slots", "1")
    assert len(user.published()) == 1
    assert servers_of(user) == []


LOADED = """\
campaign: study
defaults: {generation: {max_new_tokens: 4}, limits: {tries: 1}}
matrix:
  models:
    - {name: one, adapter: llama_cpp, path: ./one.gguf}
    - {name: two, adapter: llama_cpp, path: ./two.gguf}
  configs: {dense: null}
  benchmarks:
    - recall: {samples: 2, subsets: ["64", "128"]}
    - serving: {subsets: {c1: {concurrency: 1}, c2: {concurrency: 2}}, requests: 4,
                input_tokens: 16, output_tokens: 4, calibrate: false}
"""


@pytest.mark.usefixtures("llama_cpp")
def test_one_start_of_a_server_serves_load_points_and_benchmarks(user: User) -> None:
    for name in ("one.gguf", "two.gguf"):
        user.write(name, name)
    user.write(LOADED)
    user.run("run", "study.yaml", "--cpu-slots", "1")
    assert len(user.published()) == 8
    starts = (user.folder / "bin" / "starts").read_text().splitlines()
    assert sorted(starts) == [str(user.folder / name) for name in ("one.gguf", "two.gguf")]


def test_the_example_is_valid_and_shows_its_server(user: User) -> None:
    example = MODEL.parents[1] / "served" / "campaign.yaml"
    results = str(user.folder / "results")
    plan = user.run("plan", str(example), "--results", results, "--cpu-slots", "2").stdout
    assert "4 to run" in plan
    assert "server of served: transformers serve" in plan
