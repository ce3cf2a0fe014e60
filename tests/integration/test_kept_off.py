"""Verbs on a machine whose report keeps cells off it: each says so, and none is run there."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.main import main
from benchfleet.machines.probe import report
from benchfleet.study import open_study
from capabilities import BOARD, DESKTOP, reported

STUDY = """\
campaign: study
defaults: {adapter: mock}
eligibility: {big: {when: ram_total >= 8GB, models: large}}
matrix:
  models: [{name: large, model_kwargs: {answer: x}}, {name: small, model_kwargs: {answer: x}}]
  benchmarks: [{mock_benchmark: {rows: 1}}]
"""
WHY = "big: ram_total is 4 GB, not >= 8 GB (report of board, 2026-03-01 00:00)"
LARGE = "large/dense/mock_benchmark"
Say = Callable[..., Any]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs a verb on a board, of which the ledger has a report, and gives what it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCHFLEET_HOST", "board")
    Path("study.yaml").write_text(STUDY)
    for name, found in (("board", BOARD), ("desktop", DESKTOP)):
        report.write(Path("reports"), reported(name, found))

    def printed(*words: str, code: int = 0) -> str:
        assert main(list(words)) == code
        output = capsys.readouterr()
        assert output.err == ""
        return output.out

    printed("assign", "study.yaml", "--reports", "reports", "--effort", "0.1")
    return printed


def states() -> dict[str, str]:
    ledger = open_study(load_campaign(Path("study.yaml"))).open_ledger()
    with closing(ledger):
        return {record.path: record.state for record in ledger.cells()}


def test_plan_and_status_name_the_rule_and_the_report(say: Say) -> None:
    assert f"cannot run here\n  {WHY}: {LARGE}\n" in say("plan", "study.yaml")
    rows = {row["cell"]: row for row in json.loads(say("plan", "study.yaml", "--json"))["cells"]}
    assert rows[LARGE]["impossible"] == WHY
    assert f"  kept off board: none of 1 cell of large: {WHY}\n" in say("status", "study.yaml")
    assert json.loads(say("status", "study.yaml", "--json"))["kept_off"] == [
        {"host": "board", "why": WHY, "cells": 1, "models": ["large"]}
    ]


def test_another_machine_sees_what_the_board_may_not_have(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_HOST", "desktop")
    assert f"  kept off board: none of 1 cell of large: {WHY}\n" in say("plan", "study.yaml")


def test_a_machine_probed_under_another_name_is_reported_as_bound_by_no_rule(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_HOST", "board.lan")
    lacks = "no report of board.lan: no rule keeps a cell off it, and no plan gives it one; "
    for words in (("plan",), ("doctor",), ("run", "--only", "models=large")):
        printed = say(words[0], "study.yaml", *words[1:])
        assert f"{lacks}the reports are of board, desktop" in printed
        assert "BENCHFLEET_HOST" in printed
    Path("machines.yaml").write_text("hosts: [{name: far}]")
    output = json.loads(
        say("doctor", "study.yaml", "--machines", "machines.yaml", "--json", code=1)
    )["checks"]
    assert [one["finding"].partition(":")[0] for one in output if one["what"] == "reports"] == [
        "no report of far"
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("run", "study.yaml"),
        ("work", "--ledger", "sqlite:benchmark_results/study/ledger.db"),
        ("work", "study.yaml", "--assigned", "mine.json"),
    ],
    ids=["run", "work", "assigned"],
)
def test_no_verb_runs_it_there_and_all_say_why(say: Say, words: tuple[str, ...]) -> None:
    tasks = [json.loads(Path(f"tasks/{h}_tasks.json").read_text()) for h in ("board", "desktop")]
    everything = [one for output in tasks for one in output["tasks"]]
    Path("mine.json").write_text(json.dumps({**tasks[0], "tasks": everything, "plan": "another"}))
    printed = say(*words, code=1)
    assert f"this machine is given none of 1 cell of large: {WHY}\n" in printed
    assert f"cannot run here: {LARGE}: {WHY}\n" in printed
    assert states() == {LARGE: "pending", "small/dense/mock_benchmark": "success"}
