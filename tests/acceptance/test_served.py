"""Campaigns over models behind servers."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path

import pytest

from benchfleet.testing.simulated_server import Behaviour, SimulatedServer

from .conftest import User

STUDY = """\
campaign: study
defaults: {generation: {max_new_tokens: 4}}
matrix:
  models:
    - name: m
      adapter: openai
      model: simulated
      url: "%s/v1"
      key: "env:SIMULATED_KEY"
      price: {in: 1 USD, out: 1000 USD}
  configs: {dense: null}
  benchmarks: [mock_benchmark]
"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SIMULATED_KEY", "key-of-the-tests")
    return "key-of-the-tests"


def everything_in(folder: Path) -> str:
    files = (file for file in folder.rglob("*") if file.is_file())
    return "\n".join(file.read_text(errors="replace") for file in files)


def test_a_served_model_is_run_once_and_its_address_may_change(user: User, key: str) -> None:
    with SimulatedServer(key=key) as server:
        user.write(STUDY % server.url)
        user.run("run", "study.yaml", "--cpu-slots", "1")
        requests = len(server.requests)
    (place,) = user.published()
    lines = (user.results / place / "samples.jsonl").read_text().splitlines()
    assert {json.loads(line)["finish"] for line in lines} == {"length"}
    assert key not in everything_in(user.results)
    usage = json.loads((user.results / place / "cell.json").read_text())["usage"]
    records = list(map(json.loads, lines))
    prompts = sum(record["prompt_tokens"] for record in records)
    answers = sum(record["completion_tokens"] for record in records)
    assert usage["cost"] == pytest.approx((prompts + 1000 * answers) / 1e6)
    assert usage["currency"] == "USD"
    with SimulatedServer(key=key) as moved:
        user.write(STUDY % moved.url)
        user.run("run", "study.yaml", "--cpu-slots", "1")
        assert moved.requests == []
    assert requests == 1 + len(lines)


def test_a_wrong_key_and_a_server_that_is_away_are_named(user: User, key: str) -> None:
    with SimulatedServer(key="another key") as server:
        user.write(STUDY % server.url)
        user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
        assert "load: wrong_key" in user.run("failures", "study.yaml").stdout
        server.key = key
        user.run("retry", "study.yaml")
        user.run("run", "study.yaml", "--cpu-slots", "1")
    assert len(user.published()) == 1


def test_a_server_that_is_overloaded_for_a_moment_fails_no_cell(user: User, key: str) -> None:
    busy = [Behaviour(status=503), Behaviour(), Behaviour(status=429, retry_after="0")]
    with SimulatedServer(key=key, script=deque(busy)) as server:
        user.write(STUDY % server.url)
        user.run("run", "study.yaml", "--cpu-slots", "1")
    assert len(user.published()) == 1
