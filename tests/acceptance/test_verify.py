"""``benchfleet verify`` as a person has it."""

from __future__ import annotations

import json
import shutil

import pytest

from .conftest import MOCK, User

ONE, TWO = "m1/dense/mock_benchmark", "m2/dense/mock_benchmark"


def test_what_was_broken_is_named_fixed_and_run_again(finished: User) -> None:
    assert "2 results verified, nothing wrong" in finished.run("verify", "study.yaml").stdout
    before = finished.published()
    shutil.rmtree(finished.results / ONE)
    with open(finished.results / TWO / "metrics.json", "a") as file:
        file.write("\n")
    output = finished.run("verify", "study.yaml", code=1).stdout
    assert f"gone  {ONE}  done, and its folder is not there" in output
    assert f"damaged  {TWO}  metrics.json is not as it was sealed" in output
    assert "; `benchfleet verify study.yaml --repair` runs it again" in output
    refused = finished.run("verify", "study.yaml", "--repair", code=2).stderr
    assert "this would repair 2 places and move 1 to .evidence; add --yes" in refused
    done = finished.json("verify", "study.yaml", "--repair", "--yes", code=1)
    assert [one["act"] for one in done["repaired"]] == [
        "kept as evidence",
        "pending again",
        "pending again",
    ]
    assert (done["wrong"], done["missing"]) == ([], {"pending": 2})
    again = finished.json("verify", "study.yaml", "--repair", "--yes", code=1)
    assert (again["repaired"], again["missing"]) == ([], {"pending": 2})
    finished.run("run", "study.yaml")
    assert finished.run("verify", "study.yaml", "--deep").returncode == 0
    now = {path: json.loads(sealed) for path, sealed in finished.published().items()}
    assert {path: one["metrics"]["overall_score"] for path, one in now.items()} == {
        path: json.loads(sealed)["metrics"]["overall_score"] for path, sealed in before.items()
    }
    assert now[TWO]["provenance"]["resumed_samples"] == 5  # those were as they had been


def test_a_repair_says_that_a_cell_left_the_campaign(finished: User) -> None:
    finished.write("".join(line for line in MOCK.splitlines(True) if "m1" not in line))
    shutil.rmtree(finished.results / ONE)
    done = finished.json("verify", "study.yaml", "--repair", "--yes")
    ((act, detail),) = [(one["act"], one["detail"]) for one in done["repaired"]]
    assert act == "pending again"
    assert "is not in the campaign any more: `run` skips it" in detail


def test_a_file_of_ones_own_in_a_result_is_named_and_costs_no_result(finished: User) -> None:
    (finished.results / ONE / "notes.txt").write_text("mine")
    output = finished.run("verify", "study.yaml", code=1).stdout
    assert f"extra  {ONE}  notes.txt was never sealed" in output
    assert "without a good result" not in output
    refused = finished.run("verify", "study.yaml", "--repair", code=2).stderr
    assert "this would repair 1 place and move 1 to .evidence; add --yes" in refused
    done = finished.json("verify", "study.yaml", "--repair", "--yes")
    assert [one["act"] for one in done["repaired"]] == ["kept as evidence"]
    assert (done["wrong"], done["missing"]) == ([], {})


def test_cells_without_a_result_are_counted_by_axis(user: User) -> None:
    user.write(MOCK)
    nothing = user.json("verify", "study.yaml", code=1)
    assert (nothing["results"], nothing["missing"]) == (0, {"pending": 2})
    user.run("run", "study.yaml", "--only", "models=m1")
    found = user.json("verify", "study.yaml", "--quick", code=1)
    assert found["complete"]["models"] == {
        "m1": {"good": 1, "cells": 1},
        "m2": {"good": 0, "cells": 1},
    }
    output = user.run("verify", "study.yaml", code=1).stdout
    assert "1 cell without a good result: 1 pending" in output
    assert "run them: benchfleet run study.yaml" in output
    user.run("verify", "study.yaml", "--only", "models=m1")


def with_modules(user: User, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    """Let every Python that the user starts find these modules."""
    folder = user.folder / "modules"
    for name, text in modules.items():
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_what_another_folder_keeps_is_no_fault_of_this_one(user: User) -> None:
    user.write(MOCK)
    ledger = ("--ledger", "sqlite:shared.db")
    user.run("run", "study.yaml", *ledger, "--results", "lab2", "--only", "models=m2")
    user.run("run", "study.yaml", *ledger)
    output = user.run("verify", "study.yaml", *ledger, "--repair", "--yes").stdout
    assert "study: 1 result verified, nothing wrong" in output
    assert "1 result elsewhere, not looked at" in output
    assert "benchfleet merge study.yaml" in output
    assert not (user.results / ".evidence").exists()
    user.run("run", "study.yaml", *ledger, "--limit", "1", "--only", "models=m1")
    output = user.run("verify", "study.yaml", *ledger).stdout
    assert "1 of these results are not of the campaign's cells: trials with --limit" in output
    shutil.rmtree(user.results / ONE)
    found = user.json("verify", "study.yaml", *ledger, code=1)
    assert [(one["kind"], one["path"]) for one in found["wrong"]] == [("gone", ONE)]


def test_a_damaged_copy_is_fetched_again_from_the_host_that_has_the_result(user: User) -> None:
    user.write(MOCK)
    ledger = ("--ledger", "sqlite:shared.db")
    user.run("run", "study.yaml", *ledger, "--results", "lab2")
    user.run("merge", "study.yaml", *ledger, "--from", "lab2")
    (user.results / ONE / "metrics.json").write_text("{}")
    (wrong,) = user.json("verify", "study.yaml", *ledger, code=1)["wrong"]
    assert (wrong["kind"], bool(wrong["elsewhere"])) == ("damaged", True)
    assert "merge study.yaml --ledger sqlite:shared.db --from …` fetches it" in wrong["way_out"]
    repaired = user.json("verify", "study.yaml", *ledger, "--repair", "--yes")["repaired"]
    assert [one["act"] for one in repaired] == ["kept as evidence"]
    assert user.json("status", "study.yaml", *ledger)["success"] == 2
    user.run("merge", "study.yaml", *ledger, "--from", "lab2")
    assert "2 results verified, nothing wrong" in user.run("verify", "study.yaml", *ledger).stdout


def test_results_of_a_host_whose_disk_is_lost_run_again(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write(MOCK)
    monkeypatch.setenv("BENCHFLEET_HOST", "lab2")
    ledger = ("--ledger", "sqlite:shared.db")
    user.run("run", "study.yaml", *ledger, "--results", "lab2")
    retry = ("retry", "study.yaml", *ledger, "--gone", "--yes")
    assert user.json(*retry)["pending_again"] == []
    monkeypatch.setenv("BENCHFLEET_HOST", "desk")
    lost = ("--lost-host", "lab2")
    assert user.run("retry", "study.yaml", *ledger, *lost, code=2).stderr.count("add --gone")
    misspelt = user.run(*retry, "--lost-host", "lab1", code=2).stderr
    assert "no missing result is at lab1; they are at lab2" in misspelt
    assert len(user.json(*retry, *lost)["pending_again"]) == 2


SCORER = """
from pathlib import Path
from benchfleet.benchmarks.base import Sample, SampleBenchmark, Score
from benchfleet.models.base import Prompt

class Drifting(SampleBenchmark):
    version = "1"

    def __init__(self, params):
        pass

    def params(self):
        return {}

    def samples(self, subset, seed):
        what = Prompt(context="what?")
        return [Sample(index=index, id=str(index), prompt=what) for index in range(3)]

    def score(self, records):
        scores = [float(word) for word in Path(__file__).with_name("scores").read_text().split()]
        return Score(overall=sum(scores), per_sample=scores)
"""


def test_a_scorer_that_changed_is_reported_by_a_deep_check(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_modules(user, monkeypatch, drift=SCORER)
    plugin = user.folder / "modules" / "drift-1.dist-info"
    plugin.mkdir()
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: drift\nVersion: 1\n")
    (plugin / "entry_points.txt").write_text("[benchfleet.benchmarks]\ndrift = drift:Drifting\n")
    scores = user.folder / "modules" / "scores"
    scores.write_text("1 0 1")
    user.write(MOCK.replace("mock_benchmark", "drift"))
    user.run("run", "study.yaml", "--only", "models=m1")
    user.run("verify", "study.yaml", "--deep", "--only", "models=m1")
    scores.write_text("1 0 0")
    found = user.json("verify", "study.yaml", "--deep", "--repair", "--yes", code=1)
    (wrong,) = found["wrong"]
    assert (wrong["kind"], wrong["path"]) == ("score", "m1/dense/drift")
    assert wrong["message"] == ("scored again it has 1.0, published is 2.0 (1 sample differs)")
    assert found["repaired"] == []


def test_what_cannot_be_scored_again_is_noted_and_is_not_wrong(user: User) -> None:
    once = user.folder / "once"
    user.write(MOCK.replace("mock_benchmark", f"_hostile: {{act: score, once: {once}}}"))
    once.touch()
    user.run("run", "study.yaml")
    once.unlink()
    done = user.run("verify", "study.yaml", "--deep")
    assert "note: m1/dense/_hostile was not scored again: " in done.stdout


ASKS_AND_SCORES = """
def evaluate(adapter):
    (answer,) = adapter.generate(["what?"])
    return {"samples": [{"id": "0", "score": 1.0, "predicted_answer": answer}]}
"""


def test_results_that_cannot_be_scored_again_are_counted_by_benchmark(user: User) -> None:
    command = """command: {name: own, argv: [echo, '{"overall_score": 0.5}']}"""
    (user.folder / "mine.py").write_text(ASKS_AND_SCORES)
    call = "python: {name: mine, call: 'mine:evaluate'}"
    user.write(MOCK.replace("mock_benchmark", f"{{{command}}}, {{{call}}}"))
    user.run("run", "study.yaml")
    notes = user.json("verify", "study.yaml", "--deep")["notes"]
    assert sorted(notes) == [
        f"2 results of {name} were not scored again: {name} asks and scores in one"
        for name in ("mine", "own")
    ]
