"""Scripts of a user that fail, are corrected and run again."""

from __future__ import annotations

import json
import sys

import pytest

from .conftest import MOCK, User

RETRY_ERRORS = "benchfleet retry study.yaml --kind error && benchfleet run study.yaml"


@pytest.mark.parametrize("identity", ["", "identity: mine, "])
def test_the_command_after_a_failed_script_runs_the_corrected_one(
    user: User, identity: str
) -> None:
    user.write("raise KeyError('gone')", "script.py")
    user.write(f"""\
campaign: study
matrix:
  models: [{{name: m1, adapter: mock}}]
  benchmarks: [{{command: {{name: mine, {identity}argv: [python, script.py]}}}}]
""")
    shown = user.run("run", "study.yaml", code=1).stdout
    assert "see what to change: benchfleet failures study.yaml\n" in shown
    assert f"again: {RETRY_ERRORS.replace(' --kind error', '')}\n" in shown
    assert "Correct your script or function" in shown
    (group,) = json.loads(user.failures("--json"))["groups"]
    assert group["command"] == RETRY_ERRORS
    user.write("print('{\"accuracy\": 1.0}')", "script.py")
    for command in group["command"].split(" && "):
        user.run(*command.split()[1:])
    assert len(user.published()) == 1


FAILING_SCRIPT = """\
print("starting")
raise ValueError("no column 'answer'")
"""


def test_a_failed_script_shows_its_own_error_first_and_a_changed_one_is_run(user: User) -> None:
    user.write(FAILING_SCRIPT, "own.py")
    command = f"{{command: {{name: own, argv: [{sys.executable}, own.py]}}}}"
    user.write(MOCK.replace("mock_benchmark", command).replace("    - {name: m2", "    # "))
    user.run("run", "study.yaml", code=1)
    output = user.failures()
    assert "benchmark: error (ValueError: no column 'answer' (" in output
    (group,) = json.loads(user.failures("--json"))["groups"]
    assert (user.folder / group["folder"]).is_dir()
    assert group["command"] == RETRY_ERRORS
    assert f"all of it is in {group['folder']}" in output
    ledger = f"sqlite:///{user.results}/ledger.db"
    away = user.failures("--ledger", ledger, "--results", "away")
    assert f"all of it is on {group['attempts'][-1]['host']}" in away
    user.write("print('{\"score\": 1}')", "own.py")
    retried = user.run("retry", "study.yaml").stdout
    assert retried == "nothing to retry; 1 cell waits to run: benchfleet run study.yaml\n"
    user.run("run", "study.yaml")


def test_a_cell_that_failed_after_its_script_changed_is_not_said_to_run_again(user: User) -> None:
    user.write(
        "campaign: study\nmatrix:\n  models: [{name: m, adapter: none}]\n"
        "  benchmarks: [command: {name: own, argv: [python, own.py]}]\n"
    )
    user.write("print('{\"score\": 1}')\n", "own.py")
    user.run("run", "study.yaml")
    user.write("raise SystemExit('broken')\n", "own.py")
    assert len(user.json("plan", "study.yaml")["reruns"]) == 1
    user.run("run", "study.yaml", code=1)
    assert user.json("plan", "study.yaml")["reruns"] == []  # nor would it without `retry`
