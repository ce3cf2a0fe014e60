"""Several answers to each question, and answers that a larger limit or number takes over."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from benchfleet.testing.simulated_server import SimulatedServer

from .conftest import User

STUDY = """\
campaign: study
defaults: {{generation: {{temperature: 1}}}}
matrix:
  models: [{{name: m, adapter: openai, model: simulated, url: "{url}/v1"}}]
  configs: {{c: {{thinking: {{start: "{start}", end: "{end}"}}}}}}
  benchmarks: [recall: {{subsets: [128], samples: 40{more}}}]
"""


class Student:
    """Thinks, and says the right digit when it is asked for the first and the third time."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()

    def __call__(self, body: dict[str, Any]) -> str | None:
        text = str(body["messages"][-1]["content"])
        if not re.search(r"\?[A-Z]$", text):
            return None  # of the load
        before = sum(count for (asked, _), count in self.asked.items() if asked == text)
        self.asked[text, body["seed"]] += 1
        digit = text[text.index(text[-1]) + 1]
        return f"<think>hm</think>{(int(digit) + before) % 10 if before % 2 else digit}"


def metrics_of(user: User, place: str) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads((user.results / place / "metrics.json").read_text())
    return {**metrics["summary"], "overall_score": metrics["overall_score"]}


def test_each_question_is_asked_once_for_each_of_its_answers(user: User) -> None:
    run = ("run", "study.yaml", "--cpu-slots", "1")
    with SimulatedServer(respond=(student := Student())) as server:

        def write(more: str = "", start: str = "<think>", end: str = "</think>") -> None:
            user.write(STUDY.format(url=server.url, more=more, start=start, end=end))

        write(start="[T]", end="[/T]")  # wrong tags: nothing is right
        user.run(*run, "--limit", "20")
        assert len(student.asked) == 20
        user.run(*run)
        assert sorted(user.published()) == ["m/c/recall_128", "m/c/recall_128+limit20"]
        assert metrics_of(user, "m/c/recall_128")["ended_unparsed"] == 1.0
        assert (len(student.asked), student.asked.most_common(1)[0][1]) == (40, 1)

        # Other tags: scored again without a request, not even one to load the model.
        requests = len(server.requests)
        write()
        assert "✓ m/c/recall_128@" in user.run("rescore", "study.yaml").stdout
        assert len(server.requests) == requests
        user.run(*run)
        assert len(server.requests) == requests
        (right,) = [p for p in user.published() if p.startswith("m/c/recall_128@")]
        first = metrics_of(user, right)
        assert first["overall_score"] == 1.0

        # Four answers to each question: the first is there.
        write(", samples_per_question: 4")
        shown = user.run(*run).stdout
        assert (len(student.asked), student.asked.most_common(1)[0][1]) == (160, 1)
        (four,) = {*user.published()} - {right, "m/c/recall_128", "m/c/recall_128+limit20"}
        metrics = metrics_of(user, four)
        assert metrics["overall_score"] == metrics["avg_at_4"] == 0.5
        assert metrics["samples"] == 160
        assert metrics["pass_at_1"] == 0.5
        assert metrics["pass_at_2"] == pytest.approx(5 / 6)
        assert metrics["pass_at_4"] == 1.0
        assert metrics["pass_hat_2"] == pytest.approx(1 / 6)
        assert metrics["stderr"] == 0.0  # clustered: each question has the same mean
        assert "pass@4" in shown
        lines = (user.results / four / "samples.jsonl").read_text().splitlines()
        records = list(map(json.loads, lines))
        assert [one.get("draw", 0) for one in records[:4]] == [0, 1, 2, 3]
        assert {one["reasoning"] for one in records} == {"hm"}
        assert len({one["question"] for one in records}) == 40
        user.run("verify", "study.yaml", code=None)
