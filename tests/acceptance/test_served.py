"""Campaigns over models behind servers that were there before."""

from __future__ import annotations

import json
import re
import signal
from collections import deque
from pathlib import Path

import pytest

from benchfleet.testing.simulated_server import Behaviour, SimulatedServer

from .conftest import User, end_of, samples_kept, until

LOAD_REQUESTS = 2  # of each load: a token, and what the server can do
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
    assert requests == LOAD_REQUESTS + len(lines)


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
    busy = [
        Behaviour(status=503),
        *[Behaviour()] * LOAD_REQUESTS,
        Behaviour(status=429, retry_after="0"),
    ]
    with SimulatedServer(key=key, script=deque(busy)) as server:
        user.write(STUDY % server.url)
        user.run("run", "study.yaml", "--cpu-slots", "1")
    assert len(user.published()) == 1


def test_a_cell_comes_back_when_its_server_wants_to_be_asked_again(user: User, key: str) -> None:
    limited = [*[Behaviour()] * LOAD_REQUESTS, Behaviour(status=429, retry_after="100")]
    with SimulatedServer(key=key, script=deque(limited)) as server:
        user.write(STUDY % server.url)
        run = user.start("run", "study.yaml", "--cpu-slots", "1")
        until(lambda: user.json("status", "study.yaml").get("used", {}).get("attempts") == 1)
        run.send_signal(signal.SIGINT)
        out = end_of(run, 130)
    assert re.search(r"asks to come back in 100 s.*; again in 1 min 4[12] s", out)


BESIDE = """\
campaign: study
matrix:
  models:
    - {name: here, adapter: mock}
    - {name: api, adapter: openai, model: simulated, url: "%s/v1"}
  configs: {dense: null}
  benchmarks: [mock_benchmark, {_hostile: {act: wait, shared: %s}}]
  exclude: [{models: here, benchmarks: mock_benchmark}, {models: api, benchmarks: _hostile}]
"""


def test_served_cells_run_while_a_local_cell_holds_the_only_slot(user: User) -> None:
    gate = user.write("", "gate")
    with SimulatedServer() as server:
        user.write(BESIDE % (server.url, gate))
        plan = user.run("plan", "study.yaml", "--cpu-slots", "1").stdout
        assert "1 at a time, and 1 at a time on 1 endpoint" in plan
        assert re.search(r"api/dense/mock_benchmark +endpoint +–", plan)
        run = user.start("run", "study.yaml", "--cpu-slots", "1")
        until(lambda: samples_kept(user) >= 1 and user.published())
        assert [place.split("/")[0] for place in user.published()] == ["api"]
        gate.unlink()
        assert run.wait(60) == 0
    assert len(user.published()) == 2


TWO_NAMES = """\
campaign: study
defaults: {generation: {max_new_tokens: 1}}
endpoint_slots: %d
matrix:
  models:
    - {name: a, adapter: openai, model: simulated, url: "%s/v1", requests_at_once: 1}
    - {name: b, adapter: openai, model: simulated, url: "%s/v1", requests_at_once: 1, system: Hi}
  configs: {dense: null}
  benchmarks: [recall: {samples: 4, subsets: ["64", "128"]}]
"""


@pytest.mark.parametrize("slots", [1, 2])
def test_two_names_of_one_server_are_one_endpoint(user: User, slots: int) -> None:
    with SimulatedServer(otherwise=Behaviour(first_s=0.1)) as server:
        elsewhere = server.url.replace("127.0.0.1", "localhost")
        user.write(TWO_NAMES % (slots, server.url, elsewhere))
        user.run("run", "study.yaml", "--cpu-slots", "1")
        assert len(user.published()) == 4
        assert server.most_at_once <= slots


BUDGET = """\
campaign: study
budget: %s USD
defaults: {generation: {max_new_tokens: 1}}
matrix:
  models:
    - name: m
      adapter: openai
      model: simulated
      url: "%s/v1"
      price: {in: 0 USD, out: 1000000 USD}
  configs: {dense: null}
  benchmarks: [recall: {samples: 3, subsets: ["64", "128", "256", "512"]}]
"""


def test_a_budget_stops_new_cells_and_a_larger_one_goes_on(user: User) -> None:
    with SimulatedServer() as server:
        user.write(BUDGET % (5, server.url))  # a cell costs 3 USD
        plan = user.run("plan", "study.yaml", "--cpu-slots", "1").stdout
        assert "cost     at most 12.00 USD for tokens" in plan
        done = user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
        assert "ended early: the budget of 5 USD is spent (6.00 USD)" in done.stdout
        assert len(user.published()) == 2
        requests = len(server.requests)
        user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
        assert len(server.requests) == requests
        user.write(BUDGET % (100, server.url))
        user.run("run", "study.yaml", "--cpu-slots", "1")
    assert len(user.published()) == 4


def test_paid_answers_survive_the_final_failure_of_another(user: User, key: str) -> None:
    with SimulatedServer(key=key) as server:
        user.write(
            (STUDY % server.url).replace(
                "max_new_tokens: 4}", "max_new_tokens: 4}, limits: {tries: 1}"
            )
        )
        server.script = deque(
            [Behaviour()] * (LOAD_REQUESTS + 1) + [Behaviour(first_s=0.5), Behaviour(status=400)]
        )
        user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
        kept = samples_kept(user)
        requests = len(server.requests)
        assert kept == requests - LOAD_REQUESTS - 1  # one failed
        user.run("retry", "study.yaml")
        user.run("run", "study.yaml", "--cpu-slots", "1")
        (place,) = user.published()
        lines = (user.results / place / "samples.jsonl").read_text().splitlines()
        assert len(server.requests) - requests == LOAD_REQUESTS + len(lines) - kept


def test_a_wrong_model_name_is_named_and_the_next_run_goes_on(user: User, key: str) -> None:
    with SimulatedServer(key=key, model="another") as server:
        user.write(STUDY % server.url)
        user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
        assert "load: model_not_found" in user.run("failures", "study.yaml").stdout
        server.model = "simulated"
        user.run("retry", "study.yaml")
        user.run("run", "study.yaml", "--cpu-slots", "1")
    assert len(user.published()) == 1
