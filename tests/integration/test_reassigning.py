"""A plan over machines of which there are reports, made again while a campaign runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.main import main
from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.plan import ASSIGNED, Plan, newest, plans
from benchfleet.domain.slots import BEGAN
from benchfleet.machines.probe import report
from benchfleet.study import Study, open_study
from capabilities import BOARD, DESKTOP, LAPTOP, reported

STUDY = """\
campaign: study
defaults: {adapter: mock, repeats: 8}
eligibility: {any: ram_total >= 1MB, tiers: [{tier: 1, when: any}]}
matrix:
  models:
    - name: r1-7b
      size: 9GB
      model_kwargs: {answer: full}
      variants: [{name: r1-7b-q4, size: 4.5GB, model_kwargs: {answer: small}}]
  benchmarks: [mock_benchmark]
"""
Say = Callable[..., Any]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs a verb on the study and gives what it says as JSON."""
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(STUDY)
    for name, found in (("lab1", LAPTOP), ("lab2", LAPTOP), ("lab3", LAPTOP)):
        report.write(Path("reports"), reported(name, found))

    def printed(verb: str, *words: str, code: int = 0) -> Any:
        assert main([verb, "study.yaml", *words, "--json"]) == code
        output = capsys.readouterr()
        return json.loads(output.out) if output.out else output.err

    return printed


ASSIGN = ("assign", "--reports", "reports", "--effort", "0.1")


def study() -> Study:
    return open_study(load_campaign(Path("study.yaml")))


def plan() -> Plan:
    with closing(study().open_ledger()) as ledger:
        found = newest(plans(ledger.events(kinds={ASSIGNED})))
    assert found is not None
    return found


def given(host: str) -> list[str]:
    """What the file of a machine tells it."""
    output = json.loads(Path(f"tasks/{host}_tasks.json").read_text())
    assert output["plan"] == plan().name
    return list(output["cells"])


def begin(host: str) -> Claim:
    """The machine's runner takes the first cell that it was given."""
    with closing(study().open_ledger()) as ledger:
        runner = RunnerId(host * 8)
        ledger.record(Event(kind=BEGAN, data={"runner": runner, "host": host}))
        mine = set(given(host))
        (claim,) = ledger.claim(runner, sorted(mine), 1)
        return claim


def test_what_a_failed_machine_had_goes_to_the_others_that_are_known(say: Say) -> None:
    first = say(*ASSIGN)
    had = given("lab3")
    assert first["machines"]["lab3"]["cells"] == len(had) > 1
    begin("lab3")
    kept = begin("lab1")
    output = say("reassign", "--failed-machine", "lab3", "--yes")
    assert [one["host"] for one in output["reassigned"]] == ["lab3"]
    assert output["only_planned"] == len(had) - 1
    assert sum(output["moved"].values()) == len(had)
    assert output["makespan"] > 0
    assert not Path("tasks/lab3_tasks.json").exists()
    assert set(had) <= {*given("lab1"), *given("lab2")}
    assert given("lab1")[0] == kept.lease.fingerprint  # what it runs stays its own
    assert len({*given("lab1"), *given("lab2")}) == 8


def test_a_failed_machine_is_left_out_until_it_is_probed_again(say: Say) -> None:
    say(*ASSIGN)
    say("reassign", "--failed-machine", "lab3", "--yes")
    again = say(*ASSIGN)
    assert again["left_out"] == ["lab3"]
    assert set(again["machines"]) == {"lab1", "lab2"}
    report.write(Path("reports"), reported("lab3", DESKTOP))
    assert set(say(*ASSIGN)["machines"]) == {"lab1", "lab2", "lab3"}


def test_planning_again_keeps_what_is_done_or_runs_and_plans_the_rest(say: Say) -> None:
    say(*ASSIGN)
    done, runs = begin("lab1"), begin("lab2")
    with closing(study().open_ledger()) as ledger:
        ledger.finish(done.lease, Outcome(state="success", digest="d", host="lab1"))
    again = say(*ASSIGN)
    assert (again["done"], list(again["running"].values())) == (1, ["lab2"])
    assert len(again["cells"]) == 6
    assert given("lab2")[0] == runs.lease.fingerprint
    assert plan().number == 2
    assert say(*ASSIGN)["done"] == 1
    assert plan().number == 2  # the same plan again is none


def test_what_a_run_has_on_a_failed_machine_over_ssh_is_left_to_that_run_and_said(
    say: Say, capsys: pytest.CaptureFixture[str]
) -> None:
    say(*ASSIGN)
    had = len(given("lab3"))
    with closing(study().open_ledger()) as ledger:
        ledger.record(Event(kind="host_ready", data={"host": "lab3", "slots": 2, "devices": ""}))
    assert main(["reassign", "study.yaml", "--failed-machine", "lab3", "--yes"]) == 0
    output = capsys.readouterr().out
    assert f"lab3 failed: no worker there held a cell, {had} cells only planned for it\n" in output
    assert "lab3: a run on another machine uses it over SSH" in output
    begin("lab1")
    assert main(["reassign", "study.yaml", "--failed-machine", "lab1", "--yes"]) == 0
    output = capsys.readouterr().out
    assert "lab1 failed: its worker held 1 cell, " in output
    assert "over SSH" not in output


def test_if_no_machine_is_left_nothing_is_lost_and_a_message_says_so(say: Say) -> None:
    say(*ASSIGN, "--without", "lab1,lab2")
    output = say("reassign", "--failed-machine", "lab3", "--yes", code=1)
    assert "probe" in output["problem"]
    assert output["moved"] == {}
    assert "no usable machine" in say(*ASSIGN, "--without", "lab1,lab2", code=2)


def test_a_cell_that_fits_nowhere_does_not_spoil_the_new_plan(say: Say) -> None:
    more = "  models:\n    - {name: huge, size: 2TB}\n"
    Path("study.yaml").write_text(STUDY.replace("  models:\n", more))
    assert set(say(*ASSIGN)["nowhere"]) == {f"huge/dense/mock_benchmark/r{n}" for n in range(8)}
    output = say("reassign", "--failed-machine", "lab3", "--yes")
    assert output["moved"]


def test_an_unknown_machine_is_refused_with_a_near_name(say: Say) -> None:
    say(*ASSIGN)
    refused = say("reassign", "--failed-machine", "lab33", "--yes", code=2)
    assert "did you mean 'lab3'" in refused


def test_a_cell_waits_in_the_form_that_is_planned_and_in_no_other(say: Say) -> None:
    """Planned for a laptop as the variant, then for the desktop in full, and back again."""
    say(*ASSIGN)
    assert {state for _, state in states()} == {"pending"}
    report.write(Path("strong"), reported("desk", DESKTOP))
    say("assign", "--reports", "strong", "--effort", "0.1")
    assert states() == {("r1-7b-q4", "cancelled"), ("r1-7b", "pending")}
    say(*ASSIGN)
    assert states() == {("r1-7b-q4", "pending"), ("r1-7b", "cancelled")}


def states() -> set[tuple[str, str]]:
    with closing(study().open_ledger()) as ledger:
        return {
            (record.cell.model.name, record.state)
            for record in ledger.cells(with_cell=True)
            if record.cell is not None
        }


def test_a_dry_run_shows_the_plan_and_leaves_nothing(say: Say) -> None:
    output = say(*ASSIGN, "--dry-run")
    assert len(output["cells"]) == 8
    assert not Path("tasks").exists()
    assert not Path("benchmark_results").exists()


def test_cells_that_failed_are_planned_and_reported(say: Say) -> None:
    say(*ASSIGN)
    claim = begin("lab1")
    with closing(study().open_ledger()) as ledger:
        ledger.finish(claim.lease, Outcome(state="failed", digest="d", host="lab1"))
    assert say(*ASSIGN)["failed"] == 1


def test_a_board_that_fits_nothing_takes_part_with_nothing(say: Say) -> None:
    report.write(Path("reports"), reported("board", BOARD))
    say(*ASSIGN)
    assert given("board") == []
