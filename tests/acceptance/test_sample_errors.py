"""Samples that a content filter refuses: a share of them is allowed, counts as wrong, and is asked
again on request."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from benchfleet.testing.simulated_server import Behaviour, SimulatedServer

from .conftest import User, end_of

LOAD_REQUESTS = 2  # of each load: a token, and what the server can do
STUDY = """\
campaign: study
defaults: {limits: {sample_errors: %s, tries: 1}}
matrix:
  models: [{name: m, adapter: openai, model: simulated, url: "%s/v1"}]
  configs: {dense: null}
  benchmarks: [recall: {subsets: [128], samples: 100}]
"""


class Filter:
    """Refuses the questions about some keys; the first digit of a text is the answer to others."""

    def __init__(self, refused: int) -> None:
        self.refused, self.texts = refused, list[str]()

    def __call__(self, body: dict[str, Any]) -> str | Behaviour | None:
        text = str(body["messages"][-1]["content"])
        if not re.search(r"\?[A-Z]$", text):
            return None  # of the load
        if text not in self.texts:
            self.texts.append(text)
        if self.texts.index(text) < self.refused:
            return Behaviour(status=400, code="content_filter")
        key = text[-1]
        return text[text.index(key) + 1]


def test_a_share_of_refused_samples_is_allowed_and_asked_again(user: User) -> None:
    with SimulatedServer(respond=(content_filter := Filter(3))) as server:
        user.write(STUDY % ("2%", server.url))
        user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
        failed = user.run("failures", "study.yaml").stdout
        assert "3 of 100 samples failed for good" in failed
        assert "content_filter" in failed or "simulated 400" in failed

        user.write(STUDY % ("5%", server.url))
        user.run("retry", "study.yaml")
        shown = user.run("run", "study.yaml", "--cpu-slots", "1").stdout
        (place,) = user.published()
        metrics = json.loads((user.results / place / "metrics.json").read_text())
        assert metrics["overall_score"] == pytest.approx(0.97)
        assert metrics["summary"]["samples"] == 100
        assert metrics["summary"]["ended_refused"] == pytest.approx(0.03)
        assert metrics["summary"]["score_stop"] == 1.0
        assert "How the answers ended" in shown
        assert "3.0%" in shown
        records = list(
            map(json.loads, (user.results / place / "samples.jsonl").read_text().splitlines())
        )
        refused = [one for one in records if one["ended"] == "refused"]
        assert len(refused) == 3
        assert all("HTTP 400" in one["error"] and one["score"] == 0.0 for one in refused)

        asked = len(server.requests)
        user.run("run", "study.yaml", "--cpu-slots", "1")
        assert len(server.requests) == asked
        content_filter.refused = 0
        assert "pending again" in user.run("retry", "study.yaml", "--samples").stdout
        shown = user.run("run", "study.yaml", "--cpu-slots", "1").stdout
        assert "resumes after 97 samples" in shown
        assert len(server.requests) == asked + LOAD_REQUESTS + 3
        metrics = json.loads((user.results / place / "metrics.json").read_text())
        assert metrics["overall_score"] == 1.0
        assert "ended_refused" not in metrics["summary"]
        assert user.run("retry", "study.yaml", "--samples").stdout.startswith("nothing to retry")
        user.run("verify", "study.yaml")


OWN = """\
campaign: study
defaults: {limits: {sample_errors: 50%%, tries: 1}}
matrix:
  models: [{name: m, adapter: openai, model: simulated, url: "%s/v1"}]
  configs: {dense: null}
  benchmarks: [python: {name: own, call: own:evaluate}]
"""
CODE = """\
def evaluate(adapter):
    answers = adapter.generate([f"question {n}" for n in range(10)])
    samples = [{"id": n, "predicted_answer": a, "score": a == "yes"} for n, a in enumerate(answers)]
    return {"samples": samples}
"""


def test_of_a_callable_of_ones_own_failed_requests_are_errors_and_are_asked_again(
    user: User,
) -> None:
    def refused(body: dict[str, Any]) -> Behaviour | str:
        text = str(body["messages"][-1]["content"])
        return Behaviour(status=400) if re.search("question [37]", text) and refusing else "yes"

    refusing = True
    user.write(CODE, "own.py")
    with SimulatedServer(respond=refused) as server:
        user.write(OWN % server.url)
        shown = user.run("run", "study.yaml", "--cpu-slots", "1").stdout
        (place,) = user.published()
        metrics = json.loads((user.results / place / "metrics.json").read_text())
        assert metrics["overall_score"] == 0.8
        assert metrics["summary"]["ended_error"] == 0.2
        assert "ended_empty" not in metrics["summary"]
        assert "are empty" not in shown
        samples = (user.results / place / "samples.jsonl").read_text().splitlines()
        failed = [one for one in map(json.loads, samples) if one["ended"] == "error"]
        assert [one["id"] for one in failed] == ["3", "7"]
        assert all("HTTP 400" in one["error"] for one in failed)
        refusing = False
        user.run("retry", "study.yaml", "--samples")
        user.run("run", "study.yaml", "--cpu-slots", "1")
    assert json.loads((user.results / place / "metrics.json").read_text())["overall_score"] == 1


def test_a_failed_request_of_a_callable_is_asked_again_by_the_next_attempt(user: User) -> None:
    def refused(body: dict[str, Any]) -> Behaviour | str:
        return Behaviour(status=400) if "question" in str(body) and refusing else "yes"

    refusing = True
    user.write(CODE, "own.py")
    with SimulatedServer(respond=refused) as server:
        user.write(OWN % server.url)
        user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
        assert "10 samples failed for good" in user.run("failures", "study.yaml").stdout
        refusing = False
        user.run("retry", "study.yaml")
        user.run("run", "study.yaml", "--cpu-slots", "1")
    (place,) = user.published()
    assert json.loads((user.results / place / "metrics.json").read_text())["overall_score"] == 1


def test_empty_answers_to_a_callable_are_reported(user: User) -> None:
    user.write(CODE, "own.py")
    with SimulatedServer(respond=lambda body: "") as server:
        user.write(OWN % server.url)
        shown = user.run("run", "study.yaml", "--cpu-slots", "1").stdout
    assert "100% of the answers are empty" in " ".join(shown.split())
    assert "How the answers ended" in shown


def test_answers_under_way_are_kept_when_too_many_samples_fail(user: User) -> None:
    late = Behaviour(first_s=1.0)  # of the good answers: the refusals come before them
    with SimulatedServer(respond=(content_filter := Filter(3)), otherwise=late) as server:
        user.write(STUDY % ("2%", server.url))
        user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    assert "3 of 100 samples failed for good" in user.run("failures", "study.yaml").stdout
    (file,) = user.results.glob(".attempts/**/samples.jsonl")
    recorded = [json.loads(line) for line in file.read_text().splitlines()]
    assert 8 <= len(content_filter.texts) < 20
    assert len(recorded) == len(content_filter.texts)


def test_the_limit_is_of_the_whole_cell_also_where_it_is_split(user: User) -> None:
    with SimulatedServer(respond=Filter(3)) as server:
        user.write(STUDY % ("2%", server.url))
        user.run("run", "study.yaml", "--cpu-slots", "1", "--split", "10", code=1)
        failed = user.run("failures", "study.yaml").stdout
        assert "3 of 100 samples failed for good" in failed
        assert "+part" not in failed
        asked = len(server.requests)
        assert asked <= LOAD_REQUESTS + 100 + 3  # the join tries failed samples once more
        user.write(STUDY % ("5%", server.url))
        user.run("retry", "study.yaml")
        user.run("run", "study.yaml", "--cpu-slots", "1", "--split", "10")
        assert len(server.requests) <= asked + LOAD_REQUESTS + 3
    (place,) = user.published()
    metrics = json.loads((user.results / place / "metrics.json").read_text())
    assert metrics["overall_score"] == pytest.approx(0.97)


def test_failed_samples_of_a_split_cell_are_asked_again(user: User) -> None:
    with SimulatedServer(respond=(content_filter := Filter(3))) as server:
        user.write(STUDY % ("5%", server.url))
        run = ("run", "study.yaml", "--cpu-slots", "1", "--split", "4")
        user.run(*run)
        content_filter.refused = 0
        user.run("retry", "study.yaml", "--samples")
        asked = len(server.requests)
        again = user.start(*run)
        end_of(again)
        assert len(server.requests) <= asked + LOAD_REQUESTS + 3
    (place,) = user.published()
    metrics = json.loads((user.results / place / "metrics.json").read_text())
    assert metrics["overall_score"] == 1.0
    assert metrics["summary"]["samples"] == 100
    user.run("verify", "study.yaml")


def test_without_a_limit_one_refused_sample_fails_the_cell(user: User) -> None:
    with SimulatedServer(respond=Filter(1)) as server:
        user.write(STUDY % ("0", server.url))
        user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    assert "HTTP 400" in user.run("failures", "study.yaml").stdout


def test_a_wrong_share_is_named(user: User) -> None:
    user.write(STUDY % ("2 samples", "http://127.0.0.1:9"))
    assert "'2 samples' is not a share; write 2%" in user.run("plan", "study.yaml", code=2).stderr
