"""A study in phases, with four small scripts of its own, as somebody runs it."""

from __future__ import annotations

import json

import pytest

from .conftest import User

SCRIPT = """\
import argparse, json, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--config")
config = json.loads(pathlib.Path(parser.parse_args().config).read_text())
if pathlib.Path("no-data").exists() and "passed" in config:
    raise SystemExit("there is no data")
print(json.dumps(config, indent=2))
"""
CAMPAIGN = """\
campaign: study
matrix:
  models: [{name: tiny, adapter: none}]
phases:
  - name: prerequisites
    gate: each(passed, benchmarks="P*") == true and completeness == 1
    matrix:
      benchmarks:
        - command: {experiment: P1, argv: [python, prerequisites/run_p1.py],
            config: prerequisites/p1_config.json, output: results/p1_results.json, critical: true}
        - command: {experiment: P2, argv: [python, prerequisites/run_p2.py],
            config: prerequisites/p2_config.json, output: results/p2_results.json, critical: true}
  - name: e0
    gate: min(accuracy) >= 0.9
    matrix:
      benchmarks:
        - command: {experiment: E0, argv: [python, e0/run_e0.py, "--config={config}"],
            config: e0/config.json, output: results/e0_results.json}
  - name: e1
    matrix:
      benchmarks:
        - command: {experiment: E1, argv: [python, e1/run_e1.py], config: e1/config.json}
"""


def study(user: User, *, accuracy: float = 0.95, passed: bool = True) -> None:
    user.write(CAMPAIGN)
    output = {
        "prerequisites/p1_config.json": {"passed": passed},
        "prerequisites/p2_config.json": {"passed": True},
        "e0/config.json": {"accuracy": accuracy},
        "e1/config.json": {"recall": 0.5},
    }
    for name, content in output.items():
        file = user.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))
    for script in ("prerequisites/run_p1", "prerequisites/run_p2", "e0/run_e0", "e1/run_e1"):
        (user.folder / f"{script}.py").write_text(SCRIPT)


def test_a_study_passes_one_gate_fails_the_next_and_goes_on_when_somebody_says_so(
    user: User,
) -> None:
    study(user, accuracy=0.5)
    plan = user.run("plan", "study.yaml").stdout
    assert "phase prerequisites  open" in plan
    assert "waits for the gate of e0" in plan
    end = user.run("run", "study.yaml", code=1).stdout
    assert "▪ phase prerequisites: gate opened" in end
    assert "▪ phase e0: gate closed: min(accuracy) >= 0.9 · min(accuracy) = 0.5" in end
    assert "the gate of phase e0 is closed; not started: 1 cell of e1" in end
    assert "benchfleet gate override study.yaml e0 --reason TEXT" in end
    assert json.loads((user.folder / "results/p1_results.json").read_text()) == {"passed": True}
    assert json.loads((user.folder / "results/e0_results.json").read_text()) == {"accuracy": 0.5}
    summary = json.loads((user.results / "execution_summary.json").read_text())
    assert [one["state"] for one in summary["phases"]] == ["passed", "closed", "held"]
    assert summary["counts"]["pending"] == 1

    assert "gate closed" in user.run("run", "study.yaml", code=1).stdout  # and runs nothing
    found = user.json("gate", "show", "study.yaml", code=1)["phases"]
    assert found[1]["decision"]["numbers"] == ["min(accuracy) = 0.5 (of 1 cell: tiny/dense/E0)"]
    assert found[0]["decision"]["cells"] == {"success": 2}
    assert user.json("status", "study.yaml")["phases"] == found
    user.run("gate", "override", "study.yaml", "e0", code=2)
    output = user.run(
        "gate", "override", "study.yaml", "--reason", "known: small data", "e0"
    ).stdout
    assert "known: small data" in output
    end = user.run("run", "study.yaml").stdout
    assert "tiny/dense/E1" in end
    assert user.json("status", "study.yaml")["success"] == 4
    assert "all cells are done" in user.run("run", "study.yaml").stdout


def test_a_critical_script_that_fails_stops_its_phase_until_it_is_fixed(user: User) -> None:
    study(user)
    (user.folder / "no-data").touch()
    once = "campaign: study\ncpu_slots: 1\ndefaults: {limits: {tries: 1}}"
    user.write(CAMPAIGN.replace("campaign: study", once))
    end = user.run("run", "study.yaml", code=1).stdout
    assert "tiny/dense/P1 is critical and failed" in end
    assert user.json("status", "study.yaml")["pending"] == 3
    assert "gate closed" in user.run("run", "study.yaml", code=1).stdout  # and runs nothing
    check = "benchfleet gate check study.yaml prerequisites --again"
    printed = f"benchfleet retry study.yaml && {check} && benchfleet run study.yaml"
    assert f"then try the failed ones again: {printed}\n" in end
    [group] = user.json("failures", "study.yaml")["groups"]
    assert group["command"] == printed.replace(" &&", f" --kind {group['kind']} &&", 1)
    (user.folder / "no-data").unlink()
    retried, checked, _ = (user.run(*one.split()[1:]).stdout for one in printed.split(" && "))
    assert f"phase prerequisites is closed; before you run, evaluate it again: {check}" in retried
    assert "prerequisites: undecided again" in checked
    assert user.json("status", "study.yaml")["success"] == 4


def test_an_end_before_a_gate_opens_names_all_that_did_not_start(user: User) -> None:
    study(user, accuracy=0.5)
    last = CAMPAIGN[CAMPAIGN.index("  - name: e1") :]
    user.write(CAMPAIGN + last.replace("name: e1", "name: e2").replace("E1", "E2"))
    end = user.run("run", "study.yaml", "--only", "phases=e0", code=1).stdout
    ended = "the gate of phase prerequisites is not open yet (0 of its 2 cells have ended)"
    assert f"{ended}; not started: 1 cell of e0, 1 cell of e1, 1 cell of e2\n" in end
    end = user.run("run", "study.yaml", code=1).stdout
    assert "the gate of phase e0 is closed; not started: 1 cell of e1, 1 cell of e2" in end


def test_a_gate_is_weighed_again_when_somebody_asks(user: User) -> None:
    study(user, passed=False)
    user.run("run", "study.yaml", code=1)
    found = user.json("gate", "check", "study.yaml", code=1)["phases"][0]
    assert found["decision"]["why"] == ""
    user.write(CAMPAIGN.replace('each(passed, benchmarks="P*") == true', "any(passed)"))
    assert "already decided" in user.run("gate", "check", "study.yaml", code=1).stdout
    assert "gate opened: any(passed)" in user.run("gate", "check", "study.yaml", "--again").stdout
    user.run("run", "study.yaml")


def test_a_second_file_of_a_campaign_that_lacks_its_phases_is_warned_about(user: User) -> None:
    study(user, accuracy=0.5)
    ledger = ("--ledger", "sqlite:shared.db")
    assert "warning" not in user.run("run", "study.yaml", *ledger, code=1).stderr
    other = user.folder / "other.yaml"
    other.write_text(CAMPAIGN.partition("phases:")[0] + "  benchmarks: [mock_benchmark]\n")
    other.write_text(other.read_text().replace("adapter: none", "adapter: mock"))
    expected = "that ran last has other phases; workers without a file follow this one once it runs"
    gates = "gates of e0, e1, prerequisites hold nothing back then"
    words = ("other.yaml", *ledger, "--results", "other")
    (warning,) = user.json("plan", *words)["warnings"]
    assert expected in warning
    assert gates in warning
    assert expected in user.run("run", *words).stdout
    assert user.json("plan", *words)["warnings"] == []


def test_wrong_words_are_reported(user: User) -> None:
    study(user)
    assert "did you mean 'e0'" in user.run("gate", "show", "study.yaml", "e00", code=2).stderr
    joined = user.run("plan", "study.yaml", "--only", "phases=e0,models=tiny", code=2).stderr
    assert "each axis needs an option of its own: add --only models=tiny" in joined
    again = user.run("gate", "show", "study.yaml", "--again", code=2).stderr
    assert "gate show: error: unrecognized arguments: --again" in again
    assert "study has not run" in user.run("gate", "check", "study.yaml", code=2).stderr
    user.write("campaign: study\nmatrix:\n  models: [{name: m, adapter: mock}]\n"
               "  benchmarks: [mock_benchmark]\n")  # fmt: skip
    assert "has no phases" in user.run("gate", "show", "study.yaml", code=2).stderr
    study(user)
    file = user.folder / "study.yaml"
    file.write_text(file.read_text().replace("config: e0/config.json", "config: e0/nothing.json"))
    assert "config: file" in user.run("plan", "study.yaml", code=2).stderr
    file.write_text(CAMPAIGN.replace("experiment: E0,", "experiment: E0, name: E0,"))
    assert "experiment stands beside name" in user.run("plan", "study.yaml", code=2).stderr
    file.write_text(CAMPAIGN.replace("results/e0_results.json", "../e0_results.json"))
    assert "leaves the campaign's folder" in user.run("plan", "study.yaml", code=2).stderr


def test_a_task_file_written_by_hand_says_what_a_machine_runs(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    study(user)
    task = {
        "experiment": "P1",
        "config": "prerequisites/p1_config.json",
        "output": "results/p1_results.json",
    }
    output = {"machine": "machine1", "phase": "prerequisites", "tasks": [task]}
    user.write(json.dumps(output), "tasks.json")
    work = ("work", "study.yaml", "--assigned", "tasks.json", "--cpu-slots", "1")
    assert "is for 'machine1'" in user.run(*work, code=2).stderr
    monkeypatch.setenv("BENCHFLEET_HOST", "machine1")
    user.run(*work)
    assert user.published().keys() == {"tiny/dense/P1"}
    for wrong in ({"tasks": [{**task, "experiment": "E0"}]}, {"phase": "e9"}):
        user.write(json.dumps({**output, **wrong}), "tasks.json")
        printed = user.run(*work, code=2).stderr
        assert "tasks.json holds no tasks for a machine: no cell of phase" in printed
    for key, declared in (("config", task["config"]), ("output", task["output"])):
        user.write(json.dumps({**output, "tasks": [{**task, key: "p1.json"}]}), "tasks.json")
        printed = " ".join(user.run(*work, code=2).stderr.split())
        assert f"'P1' has the {key} 'p1.json', and {declared} in the campaign" in printed
