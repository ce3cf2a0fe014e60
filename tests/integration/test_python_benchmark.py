"""Your own callables and classes as cells: real slots, the installed command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import ANY

import pytest

from benchfleet.campaign.load import load_campaign
from own_code import Study

HEAD = """\
campaign: study
defaults: {limits: {tries: 1}}
matrix:
  models: [{name: m, adapter: mock, model_kwargs: {answer: Paris}}]
  configs: {dense: null}
  benchmarks:
"""

# A user's own class as the earlier tool ran it: nothing of benchfleet is in it.
OWN_CLASS = """\
import csv, json, os
from dataclasses import dataclass
from questions import QUESTIONS


@dataclass
class Request:
    context: str
    questions: list
    answer_prefix: str = "Answer: "


class Capitals:
    all_datasets = ["europe", "africa"]

    def __init__(self, subsets_to_run=None):
        self.subsets_to_run = subsets_to_run or self.all_datasets

    def run_benchmark(self, adapter, result_dir, generation_kwargs=None, request_kwargs=None):
        rows = [(part, *row) for part in self.subsets_to_run for row in QUESTIONS[part]]
        answers = []
        for _, question, _ in rows:
            request = Request(context="Capitals.", questions=[question])
            response = adapter.process_request(request, generation_kwargs, request_kwargs)
            answers.append(response.responses[0])
        right = [float(answer == replies) for (*_, answer), replies in zip(rows, answers)]
        with open(os.path.join(result_dir, "raw_results.csv"), "w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(["task", "question", "answer", "predicted_answer"])
            writer.writerows((*row, replies) for row, replies in zip(rows, answers))
        metrics = {"overall_score": sum(right) / len(right), "task_scores": {"all": right[0]}}
        with open(os.path.join(result_dir, "metrics.json"), "w") as out:
            json.dump(metrics, out)
        return {"ignored": True}
"""
QUESTIONS = """\
QUESTIONS = {
    "europe": [("France?", "Paris"), ("Norway?", "Oslo")],
    "africa": [("Kenya?", "Nairobi")],
}
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "campaign", HEAD)


def test_a_benchmark_class_of_the_earlier_tool_runs_as_it_is(study: Study) -> None:
    study.script("own/capitals.py", OWN_CLASS)
    study.script("own/questions.py", QUESTIONS)
    study.write(
        """\
        - python:
            name: capitals
            call: capitals:Capitals
            path: own
            files: [own/questions.py]
            subsets: [europe, africa]
            generation: {max_new_tokens: 4}
        """
    )
    study.run()
    assert study.result("capitals_europe/cell.json")["metrics"]["overall_score"] == 0.5
    metrics = study.result("capitals_africa/metrics.json")
    assert metrics == {"overall_score": 0.0, "task_scores": {"all": 0.0}}
    rows = study.text("capitals_europe/raw_results.csv").splitlines()
    assert rows == [
        "task,question,answer,predicted_answer",
        "europe,France?,Paris,Paris",
        "europe,Norway?,Oslo,Paris",
    ]
    assert not list((study.folder / "own").rglob("*.pyc"))
    content = study.result("capitals_europe/cell.json")  # of answers that stand in no samples
    measures = {"prompt_tokens": 2, "completion_tokens": 2, "seconds": ANY}
    assert content["measures"] == measures
    assert content["metrics"].items() >= measures.items()
    checked = [sys.executable, "-m", "benchfleet", "verify", str(study.file)]
    subprocess.run(checked, cwd=study.folder, check=True)


def test_a_function_is_called_with_the_model_and_its_parameters(study: Study) -> None:
    study.script(
        "my_eval.py",
        """\
        def evaluate(adapter, rows, subset, seed, generation):
            print(open("data.txt").read(), generation["temperature"])
            replies = adapter.generate(["France?"] * rows, max_new_tokens=2)
            samples = [
                {"id": str(i), "score": float(text == "Paris"), "predicted_answer": text}
                for i, text in enumerate(replies)
            ]
            return {"accuracy": 1.0, "subset": subset, "seed": seed, "samples": samples}

        def number(adapter):
            return 0.25
        """,
    )
    study.script("data.txt", "some data")
    study.write(
        """\
        - python: {name: mine, call: my_eval:evaluate, params: {rows: 3}, subsets: [a],
            generation: {temperature: 0}}
        - python: {name: short, call: my_eval:number}
        """
    )
    study.run()
    summary = study.result("mine_a/metrics.json")["summary"]
    cells = {c.workload.label: c for c in load_campaign(study.file).matrix.expand()}
    assert (summary["subset"], summary["seed"]) == ("a", cells["mine_a"].data_seed)
    lines = [json.loads(line) for line in study.text("mine_a/samples.jsonl").splitlines()]
    assert [(line["predicted_answer"], line["score"]) for line in lines] == [("Paris", 1.0)] * 3
    assert "some data 0" in study.text("mine_a/log.txt")
    assert study.result("short/metrics.json")["overall_score"] == 0.25


def test_a_subset_reaches_the_constructor_or_run_benchmark(study: Study) -> None:
    study.script(
        "mine.py",
        """\
        class InRun:
            def __init__(self, rows):
                self.rows = rows
            def run_benchmark(self, adapter, result_dir, subset, seed):
                return {"overall_score": self.rows, "got": subset}
        class InBoth:
            def __init__(self, subsets):
                self.subsets = subsets
            def run_benchmark(self, adapter, result_dir, *, subsets_to_run):
                return {"overall_score": 1, "got": f"{self.subsets} {subsets_to_run}"}
        class InNone:
            def run_benchmark(self, adapter, result_dir, **options):
                return 1
        """,
    )
    study.write(
        """\
        - python: {name: run, call: mine:InRun, params: {rows: 3}, subsets: [a, b]}
        - python: {name: both, call: mine:InBoth, subsets: [a]}
        - python: {name: none, call: mine:InNone, subsets: [a]}
        """
    )
    study.run(code=1)
    found = {
        name: study.result(f"{name}/metrics.json")["summary"]
        for name in ("run_a", "run_b", "both_a")
    }
    assert {name: one["got"] for name, one in found.items()} == {
        "run_a": "a",
        "run_b": "b",
        "both_a": "['a'] ['a']",
    }
    assert found["run_a"]["overall_score"] == 3
    failures = study.failures()
    assert set(failures) == {"none_a"}
    assert "mine:InNone takes no subset; give it a parameter" in failures["none_a"]["message"]


def test_an_error_in_the_users_code_is_a_failure_with_its_trace(study: Study) -> None:
    study.script(
        "mine.py",
        """\
        import sys
        def raises(adapter):
            return inner()
        def inner():
            raise KeyError("a bug of mine")
        def leaves(adapter):
            sys.exit(3)
        def nothing(adapter):
            pass
        def fine(adapter):
            return 1
        def crashes(adapter):
            import ctypes
            ctypes.string_at(0)
        class Empty:
            pass
        wrapped = lambda adapter: fine(adapter)
        """,
    )
    study.script("broken.py", "import no_such_module_here\ndef run(adapter): return 1\n")
    study.script("json/__init__.py", "def run(adapter): return 1\n")
    study.write(
        """\
        - python: {name: raises, call: mine:raises}
        - python: {name: leaves, call: mine:leaves}
        - python: {name: nothing, call: mine:nothing}
        - python: {name: subsets, call: mine:wrapped, subsets: [a]}
        - python: {name: empty, call: mine:Empty}
        - python: {name: broken, call: broken:run}
        - python: {name: taken, call: json:run}
        - python: {name: fine, call: mine:fine}
        - python: {name: crashes, call: mine:crashes}
        """
    )
    study.run(code=1)
    found = study.failures()
    assert {name: (f["stage"], f["kind"]) for name, f in found.items()} == {
        "raises": ("benchmark", "error"),
        "leaves": ("benchmark", "error"),
        "nothing": ("collect", "bad_result"),
        "subsets_a": ("benchmark", "user_error"),
        "empty": ("benchmark", "user_error"),
        "broken": ("benchmark", "error"),
        "taken": ("benchmark", "user_error"),
        "crashes": ("benchmark", "crash"),
    }
    assert "a bug of mine" in found["raises"]["message"]
    assert 'mine.py", line 5, in inner' in found["raises"]["trace"]
    assert "no_such_module_here" in found["broken"]["message"]
    assert 'mine.py", line 14 in crashes' in found["crashes"]["trace"]
    assert "takes no subset" in found["subsets_a"]["message"]
    assert "run_benchmark" in found["empty"]["message"]
    assert "'json' is taken" in found["taken"]["message"]
    assert study.result("fine/metrics.json")["overall_score"] == 1
