"""Cells shared out over machines of which there are reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchfleet.machines.probe import report
from capabilities import fleet

from .conftest import User

REPORTS = ("--reports", "reports", "--effort", "0.1")
STUDY = """\
campaign: study
defaults: {adapter: mock, repeats: 4}
matrix:
  models:
    - name: r1-7b
      size: 9GB
      model_kwargs: {answer: full}
      variants: [{name: r1-7b-q4, size: 4.5GB, model_kwargs: {answer: small}}]
    - {name: huge, size: 2TB}
  benchmarks: [mock_benchmark]
"""


def _reports(folder: Path) -> None:
    for output in fleet()[:3]:
        report.write(folder / "reports", output)


def test_assign_plans_tells_and_writes_the_tasks_of_each_machine(user: User) -> None:
    user.write(STUDY)
    _reports(user.folder)
    words = ("assign", "study.yaml", *REPORTS, "--gantt", "plan.svg")
    output = user.run(*words).stdout
    assert "instead of" in output
    assert "lower bound" in output
    assert (
        output.count("warning: fits on no machine: huge/dense/mock_benchmark/r0 and 3 others: ")
        == 1
    )
    assert (user.folder / "plan.svg").read_text().startswith("<svg")
    assert "warning: fits on no machine" in user.run(*words, "--dry-run").stdout
    user.run("assign", "study.yaml", *REPORTS, "--dry-run", "--only", "models=huge", code=1)
    plan = user.json(*words)
    assert plan["gap"] == plan["makespan"] / plan["lower_bound"] - 1
    assert plan["sequential"] >= plan["makespan"]
    assert len(plan["cells"]) == 4
    given = []
    for host in ("board", "laptop", "desktop"):
        tasks = json.loads((user.folder / "tasks" / f"{host}_tasks.json").read_text())
        assert (tasks["machine"], tasks["campaign"]) == (host, "study")
        for one in tasks["tasks"]:
            assert {"experiment", "config", "output", "critical"} <= set(one)
        given += tasks["cells"]
    assert sorted(given) == sorted(cell["fingerprint"] for cell in plan["cells"])
    assert json.loads((user.folder / "tasks" / "board_tasks.json").read_text())["tasks"] == []


def test_a_machine_that_is_left_out_has_its_tasks_taken_away(user: User) -> None:
    user.write(STUDY)
    _reports(user.folder)
    words = ("assign", "study.yaml", *REPORTS, "--only", "models=r1-7b")
    user.run(*words)
    plan = user.json(*words, "--without", "desktop")
    assert {cell["machine"] for cell in plan["cells"]} == {"laptop"}
    assert {cell["instead_of"] for cell in plan["cells"]} != {""}
    assert not (user.folder / "tasks" / "desktop_tasks.json").exists()
    assert "no report is of that machine" in user.run(*words, "--without", "lab9", code=2).stderr


def test_reports_come_from_the_ledger_where_no_place_is_named(user: User) -> None:
    user.write(STUDY)
    words = ("study.yaml", "--ledger", "sqlite:led.db")
    only = ("--only", "models=r1-7b")
    assert "no capability report" in user.run("assign", *words, *only, code=2).stderr
    user.run("probe", *words, "--quick")
    assert len(user.json("assign", *words, *only)["cells"]) == 4


def test_what_is_done_is_not_given_again(user: User) -> None:
    user.write(STUDY)
    _reports(user.folder)
    user.run("run", "study.yaml", "--only", "models=r1-7b", "--only", "repeats=0")
    words = ("assign", "study.yaml", *REPORTS, "--only", "models=r1-7b")
    plan = user.json(*words)
    assert plan["done"] == 4 - len(plan["cells"]) > 0


def test_wrong_input_is_reported(user: User) -> None:
    user.write(STUDY)
    assert (
        "holds no capability_report"
        in user.run("assign", "study.yaml", "--reports", ".", code=2).stderr
    )
    (user.folder / "capability_report_x.json").write_text("{}")
    assert (
        "is an incomplete capability report"
        in user.run("assign", "study.yaml", "--reports", ".", code=2).stderr
    )
    for place in (".", "nowhere/plan.svg"):
        output = user.run("assign", "study.yaml", *REPORTS, "--gantt", place, code=2).stderr
        assert "name a file to draw the plan in" in output
    assert not (user.folder / "tasks").exists()
    assert "is not a rate" in user.run("assign", "study.yaml", "--bandwidth", "fast", code=2).stderr


PHASED = """\
campaign: study
defaults: {adapter: mock, repeats: 3}
matrix:
  models:
    - name: r1-7b
      size: 9GB
      model_kwargs: {answer: full}
      variants: [{name: r1-7b-q4, size: 4.5GB, model_kwargs: {answer: Ada Brandt}}]
  benchmarks: [mock_benchmark, {recall: {subsets: [128], samples: 3}}]
phases:
  - {name: e0, only: {benchmarks: mock_benchmark}}
  - {name: e1, only: {benchmarks: recall}}
"""


def test_a_host_runs_what_it_was_given_in_its_form_and_the_gates_count_it(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The laptop alone is left: all is run with the variant, and the second phase opens for it."""
    user.write(PHASED)
    _reports(user.folder)
    monkeypatch.setenv("BENCHFLEET_HOST", "laptop")
    user.run("assign", "study.yaml", *REPORTS, "--without", "desktop,board")
    done = user.json("work", "study.yaml", "--assigned", "--cpu-slots", "1")
    assert done["counts"]["success"] == 6
    assert {path.split("/")[0] for path in user.published()} == {"r1-7b-q4"}
    assert len(user.published()) == 6
    output = json.loads((user.results / "laptop_summary.json").read_text())
    assert len(output["results"]) == 6
    assert user.json("status", "study.yaml")["success"] == 6
    again = user.json("assign", "study.yaml", *REPORTS)
    assert (again["done"], again["cells"]) == (6, [])


def test_a_host_takes_only_what_it_was_given(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.write(PHASED.partition("phases:")[0])
    _reports(user.folder)
    user.run("assign", "study.yaml", *REPORTS)
    counts = {}
    for host in ("desktop", "laptop"):
        monkeypatch.setenv("BENCHFLEET_HOST", host)
        file = f"tasks/{host}_tasks.json"
        counts[host] = len(json.loads((user.folder / file).read_text())["cells"])
        user.run("work", "study.yaml", "--assigned", file, "--cpu-slots", "1")
        assert len(user.published()) == sum(counts.values())
    assert sum(counts.values()) == 6
    monkeypatch.setenv("BENCHFLEET_HOST", "board")
    assert "assigns nothing to board" in user.run("work", "study.yaml", "--assigned").stdout
    monkeypatch.setenv("BENCHFLEET_HOST", "laptop")
    wrong = ("work", "study.yaml", "--assigned", "tasks/desktop_tasks.json")
    assert "is for 'desktop', and this is 'laptop'" in user.run(*wrong, code=2).stderr
    monkeypatch.setenv("BENCHFLEET_HOST", "lab9")
    unknown = user.run(*wrong[:3], code=2).stderr
    assert "is for board, desktop, laptop, and this is 'lab9'" in unknown
    nothing = user.run(*wrong[:3], "--results", "elsewhere", code=2).stderr
    assert "run `benchfleet assign` first" in nothing
