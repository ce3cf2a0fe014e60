"""Cells are taken from those who hold them: ``release``, ``reap``, ``reassign``."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from benchfleet.machines.probe import report
from capabilities import fleet

from .conftest import COMMAND, User, until

HELD = """\
campaign: study
defaults: {adapter: mock}
matrix:
  models: [{name: m1, model: x}]
  configs: {dense: null}
  benchmarks: [{_hostile: {act: wait, shared: HOLD, samples: 3, at: 1}}]
"""
CELL = "m1/dense/_hostile"
SOON = 60  # seconds


@pytest.fixture
def worker(user: User) -> Iterator[subprocess.Popen[str]]:
    """A worker called lab2 that holds the only cell."""
    hold = user.folder / "hold"
    hold.touch()
    user.write(HELD.replace("HOLD", str(hold)))
    process = subprocess.Popen(
        [*COMMAND, "work", "study.yaml", "--cpu-slots", "1"],
        cwd=user.folder,
        env={**user.environment, "BENCHFLEET_HOST": "lab2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until(lambda: user.json("status", "study.yaml")["running"])
        yield process
    finally:
        hold.unlink(missing_ok=True)
        process.terminate()
        process.communicate(timeout=SOON)


def test_status_from_another_folder_shows_the_samples_of_a_running_cell(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "3")
    hold = user.folder / "hold"
    hold.touch()
    user.write(HELD.replace("HOLD", str(hold)))
    ledger = f"--ledger=sqlite:{user.folder}/shared.db"
    process = user.start("run", "study.yaml", "--cpu-slots", "1", ledger)
    elsewhere = ["status", "study.yaml", ledger, "--results", str(user.folder / "elsewhere")]

    def samples() -> object:
        holders = user.json(*elsewhere)["holders"]
        return holders and holders[0]["progress"] and holders[0]["progress"]["done"]

    until(lambda: samples() == 1)
    assert user.json(*elsewhere)["share"] == pytest.approx(1 / 3, abs=1e-3)
    assert "1 of 3 samples · " in user.run(*elsewhere).stdout
    hold.unlink()
    assert process.wait(SOON) == 0


def history(user: User) -> list[str]:
    """The endings of the cell's attempts, from a ledger opened aside."""
    with closing(sqlite3.connect(user.results / "ledger.db")) as ledger:
        rows = ledger.execute("select kind, data from event where fingerprint <> '' order by seq")
        return [f"{kind} {data}" for kind, data in rows if kind in ("released", "reaped")]


def test_who_holds_what_and_since_when_is_shown(user: User, worker: subprocess.Popen[str]) -> None:
    [holder] = user.json("status", "study.yaml")["holders"]
    assert (holder["cell"], holder["host"]) == (CELL, "lab2")
    assert abs(time.time() - holder["since"]) < SOON
    assert "on lab2, since " in user.run("status", "study.yaml").stdout


def test_a_cell_is_given_back_and_its_old_holder_is_fenced_off(
    user: User, worker: subprocess.Popen[str]
) -> None:
    asks = user.run("release", "study.yaml", "--host", "lab2", code=2).stderr
    assert "this would release 1 cell; add --yes" in asks
    assert CELL in asks
    assert user.json("release", "study.yaml", "--cell", "other/*", "--yes")["released"] == []
    misspelt = user.run("release", "study.yaml", "--host", "lab1", "--yes").stdout
    assert "no runner holds such a cell; some run on lab2" in misspelt
    [given] = user.json("release", "study.yaml", "--host", "lab2", "--yes")["released"]
    assert given["cell"] == CELL
    [output] = history(user)
    assert "released by " in output
    assert "nothing selected" in user.run("release", "study.yaml", code=2).stderr


def test_what_a_failed_machine_held_goes_to_the_others(
    user: User, worker: subprocess.Popen[str]
) -> None:
    words = ("reassign", "study.yaml", "--yes", "--failed-machine")
    assert "has no machine 'lab3'; did you mean 'lab2'?" in user.run(*words, "lab3", code=2).stderr
    output = user.run("reassign", "study.yaml", "--failed-machine", "lab2", "--yes").stdout
    assert f"pending again  {CELL}  (was held by runner " in output
    assert "its machine lab2 failed" in history(user)[0]


def test_a_failed_machine_that_lives_does_not_take_its_cell_again(user: User) -> None:
    hold = user.folder / "hold"
    hold.touch()
    user.write(HELD.replace("HOLD", str(hold)))
    for one in fleet()[:3]:
        report.write(user.folder / "reports", one)
    plan = ("assign", "study.yaml", "--reports", "reports", "--effort", "0.1")
    (host,) = {one["machine"] for one in user.json(*plan)["cells"]}
    process = subprocess.Popen(
        [*COMMAND, "work", "study.yaml", "--assigned", "--cpu-slots", "1"],
        cwd=user.folder,
        env={**user.environment, "BENCHFLEET_HOST": host},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until(lambda: user.json("status", "study.yaml")["running"])
        reassigned = user.start("reassign", "study.yaml", "--failed-machine", host, "--yes")
        until(lambda: history(user))
        reassigned.send_signal(signal.SIGSTOP)  # as on a busy machine, right after the release
        output, _ = process.communicate(timeout=SOON)
    finally:
        hold.unlink()
        process.kill()
        process.communicate()
    reassigned.send_signal(signal.SIGCONT)
    assert reassigned.wait(SOON) == 0
    assert "held elsewhere now" in output
    assert "0 cells" not in output
    status = user.json("status", "study.yaml")
    assert (status["pending"], status["running"]) == (1, 0)
    with closing(sqlite3.connect(user.results / "ledger.db")) as ledger:
        claims = ledger.execute("select count(*) from event where kind = 'claimed'").fetchone()
    assert claims == (1,)


def test_a_dead_host_s_cells_are_taken_before_their_lease_runs_out(
    user: User, worker: subprocess.Popen[str]
) -> None:
    assert "with valid leases" in user.run("reap", "study.yaml").stdout
    assert "--now needs --host" in user.run("reap", "study.yaml", "--now", code=2).stderr
    worker.kill()
    [taken] = user.json("reap", "study.yaml", "--now", "--host", "lab2", "--yes")["reaped"]
    assert taken["cell"] == CELL
    assert user.json("status", "study.yaml")["used"]["attempts"] == 1
    assert "no cell is held" in user.run("reap", "study.yaml").stdout
