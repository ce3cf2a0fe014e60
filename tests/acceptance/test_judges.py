"""Judges: cells of their own, which grade the stored answers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from benchfleet.frames import load
from benchfleet.testing.simulated_server import Behaviour, SimulatedServer

from .conftest import User, until

STUDY = """\
campaign: study
matrix:
  models:
    - {{name: m, adapter: openai, model: simulated, url: "{answers}/v1"}}
{judges}
  configs: {{dense: null, warm: {{generation: {{temperature: 1}}}}}}
  benchmarks:
    - recall:
        subsets: [{subsets}]
        samples: 5
        judge: {{model: {names}, rubric: rubric.md{more}}}
  exclude: [{{models: "judge*"}}]
"""
JUDGE = '    - {{name: {name}, adapter: openai, model: {name}, url: "{url}/v1"}}'


class Answers:
    """Answers by the prompt and the temperature."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, body: dict[str, Any]) -> str | None:
        text = str(body["messages"][-1]["content"])
        if not re.search(r"\?[A-Z]$", text):
            return None  # of the load
        self.asked += 1
        return f"{text[-1]}{body['temperature']:g}"  # one token


class Verdicts:
    """Says a verdict to each request of a judgement, and counts them."""

    def __init__(self, verdict: str = "VERDICT: 4") -> None:
        self.verdict, self.asked, self.loads = verdict, Counter[str](), 0
        self.grade: Callable[[str], int] | None = None  # of a text, in place of the verdict
        self.go_on, self.most, self.held = threading.Event(), 10**9, 0
        self.go_on.set()

    def __call__(self, body: dict[str, Any]) -> str | Behaviour | None:
        text = str(body["messages"][-1]["content"])
        if "VERDICT" not in text:
            self.loads += text == "Hello"
            return None
        if sum(self.asked.values()) >= self.most:
            self.held += 1
            return Behaviour(gap_s=60)  # until the run is killed
        self.asked[text] += 1
        if self.grade:
            return f"VERDICT: {self.grade(text)}"
        return f"It is fine.\n{self.verdict}"


def write(user: User, answers: str, judges: dict[str, str], **more: str) -> None:
    lines = "\n".join(JUDGE.format(name=name, url=url) for name, url in judges.items())
    (user.folder / "rubric.md").write_text(more.pop("rubric", "Grade the answer. {response}"))
    settings = {"subsets": "128", "more": "", **more}
    user.write(
        STUDY.format(answers=answers, judges=lines, names=f"[{', '.join(judges)}]", **settings)
    )


def recorded(user: User) -> int:
    """The samples on disk, published or not."""
    total = 0
    for folder, _, names in os.walk(user.results):  # passes over folders that vanish meanwhile
        if "samples.jsonl" in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(folder) / "samples.jsonl").read_bytes().count(b"\n")
    return total


def report(user: User) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(
        user.run("report", "study.yaml", "--format", "json", code=None).stdout
    )
    return shown


def test_a_judge_loads_once_and_no_verdict_is_asked_twice(user: User) -> None:
    run = ("run", "study.yaml", "--cpu-slots", "1")
    subsets = "64, 96, 128, 160, 192, 224"  # of two configs: 12 cells
    with (
        SimulatedServer(respond=(answers := Answers())) as models,
        SimulatedServer(model="judge", respond=(verdicts := Verdicts())) as judges,
    ):
        write(user, models.url, {"judge": judges.url}, subsets=subsets)
        verdicts.most = 25
        started = user.start(*run)
        # The answers, these verdicts, and the requests of the next cell: one that came later would
        # be answered.
        until(lambda: recorded(user) >= 60 + 25 and verdicts.held == 5)
        started.send_signal(signal.SIGKILL)
        started.wait()
        first = verdicts.loads
        assert first == 1
        verdicts.most = 10**9
        user.run("reap", "study.yaml", code=None)
        user.run(*run)
        assert verdicts.loads == first + 1
        assert sum(verdicts.asked.values()) == 60
        assert answers.asked == 60
        judged = report(user)["judged"]
        assert len(judged) == 12
        assert {(one["mean"], one["unscored"], one["scored"]) for one in judged} == {(4.0, 0, 5)}
        results = load(user.folder / "study.yaml")
        assert Counter(results.cells["model"]) == {"m": 12, "judge": 12}
        assert set(results.comparisons["first_model"]) == {"m"}

        # A new rubric asks the judge, and no model.
        write(user, models.url, {"judge": judges.url}, subsets=subsets, rubric="Be strict.")
        user.run(*run)
        assert answers.asked == 60
        assert sum(verdicts.asked.values()) == 120


def test_an_order_biased_judge_ends_at_half_and_is_named(user: User) -> None:
    with (
        SimulatedServer(respond=Answers()) as models,
        SimulatedServer(model="judge", respond=Verdicts("VERDICT: A")) as judges,
    ):
        write(user, models.url, {"judge": judges.url}, more=", pairwise: dense")
        shown = user.run("run", "study.yaml", "--cpu-slots", "1").stdout
        assert "wins 50.0%" in shown
        assert "judge is order-biased on m / warm / recall_128: 100% of the pairs flip" in shown
        (row,) = report(user)["judged"]
        assert (row["order_flips"], row["scored"], row["unscored"]) == (1.0, 5, 0)


def test_what_cannot_be_parsed_is_unscored_and_judges_are_compared(user: User) -> None:
    pytest.importorskip("krippendorff")
    with (
        SimulatedServer(respond=Answers()) as models,
        SimulatedServer(model="judge-a", respond=(good_verdicts := Verdicts())) as good,
        SimulatedServer(model="judge-b", respond=(odd := Verdicts())) as other,
    ):
        odd.verdict = "VERDICT: 9"  # not of the scale
        write(user, models.url, {"judge-a": good.url, "judge-b": other.url})
        shown = user.run("run", "study.yaml", "--cpu-slots", "1", code=1).stdout
        assert "none of 5 texts has a verdict that can be parsed" in " ".join(shown.split())
        assert "with a number from 1 to 5" in " ".join(shown.split())
        assert "ValueError" not in shown
        advice = user.run("failures", "study.yaml", code=None).stdout
        assert "Change the rubric, the judge's 'generation'" in " ".join(advice.split())
        assert "rescore" not in advice
        rows = report(user)["judged"]
        assert {(one["judge"], one["mean"]) for one in rows} == {("judge-a", 4.0)}

        # Grades of a new rubric: alpha is that of the definition, 1 - observed / expected.
        good_verdicts.grade = lambda text: letter(text) % 5 + 1
        odd.grade = lambda text: letter(text) // 2 % 5 + 1
        urls = {"judge-a": good.url, "judge-b": other.url}
        write(user, models.url, urls, rubric="Grade once more. {response}")
        shown = user.run("run", "study.yaml", "--cpu-slots", "1").stdout
        rows = report(user)["judged"]
        assert len(rows) == 4
        for config in ("dense", "warm"):
            place = next(p for p in user.published() if p.startswith(f"m/{config}/"))
            lines = (user.results / place / "samples.jsonl").read_text().splitlines()
            texts = [json.loads(line)["predicted_answer"] for line in lines]
            pairs = [(ord(t[0]) % 5 + 1, ord(t[0]) // 2 % 5 + 1) for t in texts]
            observed = fmean((a - b) ** 2 for a, b in pairs)
            every = [grade for pair in pairs for grade in pair]
            expected = fmean((a - b) ** 2 for a, b in permutations(every, 2))
            alpha = f"{1 - observed / expected:.3f}"
            assert f"alpha of the judges on m / {config} / recall_128: {alpha}" in shown


def test_verdicts_are_ranked_and_compared_as_scores_are_over_all_repeats(user: User) -> None:
    column = "recall_128 (judge judge)"
    with (
        SimulatedServer(respond=Answers()) as models,
        SimulatedServer(model="judge", respond=(verdicts := Verdicts())) as judges,
    ):
        # The answers of the config `warm` end in its temperature, and are worse.
        verdicts.grade = lambda text: 2 if text.split("Grade the answer. ")[1][1] == "1" else 4
        write(user, models.url, {"judge": judges.url})
        text = (user.folder / "study.yaml").read_text()
        user.write(text.replace("matrix:", "defaults: {repeats: 2}\nmatrix:"))
        user.run("run", "study.yaml", "--cpu-slots", "1")
    shown = report(user)
    entries = {one["config"]: one for one in shown["entries"] if one["benchmark"] == column}
    assert {name: (one["mean"], one["samples"]) for name, one in entries.items()} == {
        "dense": (4.0, 10),
        "warm": (2.0, 10),
    }
    assert entries["warm"]["difference"]["difference"] == -2.0
    assert len(shown["judged"]) == 4
    (best,) = (one for one in shown["best"] if one["benchmark"] == column)
    assert best["config"] == "dense"
    sides = ("--in", "study.yaml", "configs=dense", "configs=warm")
    compared = user.run("compare", *sides, "--json", "--fail-on-regression", code=1)
    changes = {one["benchmark"]: one for one in json.loads(compared.stdout)["changes"]}
    assert changes[column]["difference"]["difference"] == -2.0
    assert changes[column]["regression"]


def letter(text: str) -> int:
    """The code of an answer's first letter, in the prompt of a judge."""
    return ord(text.split("Grade once more. ")[1][0])


def test_a_worker_with_the_file_runs_the_judges_too_and_plan_shows_what_they_are_asked(
    user: User,
) -> None:
    judge = '{name: judge, adapter: mock, model_kwargs: {answer: "VERDICT: 4"}}'
    models = f"[{{name: m, adapter: mock}}, {judge}]"
    judged = "[mock_benchmark: {rows: 2, judge: {model: judge, rubric: r.md}}]"
    user.write("Grade {response}", "r.md")
    matrix = f"{{models: {models}, benchmarks: {judged}, exclude: [{{models: judge}}]}}"
    user.write(f"campaign: study\nmatrix: {matrix}\n")
    follows = "judges grade 1 cell of these, in cells of their own that follow"
    assert follows in user.run("plan", "study.yaml").stdout
    done = user.run("work", "study.yaml", "--cpu-slots", "1").stdout
    assert sorted(user.published()) == [
        "judge/dense/judge_mock_benchmark_m_dense",
        "m/dense/mock_benchmark",
    ]
    assert "4.000" in done
    seen = user.json("plan", "study.yaml", "--prompts", "judge/dense/judge_mock_benchmark_m_dense")
    stored = (user.results / "m/dense/mock_benchmark/samples.jsonl").read_text().splitlines()
    answers = [json.loads(line)["predicted_answer"] for line in stored]
    for one, answer in zip(seen["prompts"], answers, strict=True):
        assert f"Grade {answer}" in one["text"] + json.dumps(one["messages"])


def test_mistakes_are_named(user: User) -> None:
    write(user, "http://127.0.0.1:9", {"judge": "http://127.0.0.1:9"}, more=", pairwise: dens")
    text = (user.folder / "study.yaml").read_text()
    user.write(text.replace("[judge]", "juge").replace("rubric.md", "none.md"))
    shown = user.run("plan", "study.yaml", code=2).stderr
    assert "none.md" in shown
    (user.folder / "none.md").write_text("x")
    shown = user.run("plan", "study.yaml", code=2).stderr
    assert "no model 'juge'; did you mean 'judge'?" in shown
    assert "no config 'dens'; did you mean 'dense'?" in shown
