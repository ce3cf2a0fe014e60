"""What goes wrong on one machine, done to real runs: each fault has its promise in
docs/reliability.md."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from .conftest import MOCK, User, samples_kept, until
from .test_interruptions import (
    SLOW,
    attempts_that_finished,
    finished_and_content,
    held,
    supervisors_of,
    undisturbed,
)

TWO = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}, {name: m2, adapter: mock}]
  configs: {dense: null}
  benchmarks: [mock_benchmark, {_hostile: {samples: 3, ACT}}]
defaults: {limits: {tries: 1, cell: CELL}}
"""


@pytest.fixture
def gate(user: User) -> Path:
    """While this file is there, no cell of `held` goes further than half of its samples."""
    return user.write("", "gate")


@pytest.fixture
def hasty(user: User, monkeypatch: pytest.MonkeyPatch) -> User:
    """A user whose leases last, and whose slots may be silent, for three seconds alone."""
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "3")
    return user


def test_a_dead_runner_s_cells_are_taken_over_when_its_leases_ran_out(
    hasty: User, gate: Path
) -> None:
    hasty.write(held(gate))
    first = hasty.start("run", "study.yaml")
    until(lambda: samples_kept(hasty) > 10)
    second = hasty.start("run", "study.yaml")
    until(lambda: bool(supervisors_of(second)))
    first.kill()
    gate.unlink()
    first.communicate()
    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, out + err
    finished = attempts_that_finished(hasty)
    assert len(finished) == len(set(finished)) == 6
    assert finished_and_content(hasty) == undisturbed()


def test_a_runner_that_wakes_up_after_another_took_over_changes_nothing(
    hasty: User, gate: Path
) -> None:
    hasty.write(held(gate))
    zombie = hasty.start("run", "study.yaml")
    until(lambda: samples_kept(hasty) > 10)
    sleeper = psutil.Process(zombie.pid)
    sleeper.suspend()
    gate.unlink()
    hasty.run("run", "study.yaml")
    before = hasty.published()
    sleeper.resume()
    out, err = zombie.communicate(timeout=120)
    assert zombie.returncode == 0, out + err
    assert "released, or held elsewhere now" in out
    assert hasty.published() == before
    assert len(attempts_that_finished(hasty)) == 6
    assert finished_and_content(hasty) == undisturbed()


def test_a_slot_that_is_stopped_is_missed_and_its_cell_goes_on_elsewhere(hasty: User) -> None:
    hasty.write(SLOW)
    process = hasty.start("run", "study.yaml")
    until(lambda: samples_kept(hasty) > 5)
    (supervisor, *_) = supervisors_of(process)
    (slot,) = supervisor.children()
    slot.suspend()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert "stopped by a signal" in out
    assert not slot.is_running()
    assert finished_and_content(hasty) == undisturbed()


def test_a_stopped_supervisor_that_goes_on_harms_nothing(
    hasty: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "6")
    hasty.write(SLOW)
    process = hasty.start("run", "study.yaml")
    until(lambda: samples_kept(hasty) > 5)
    (supervisor, *_) = supervisors_of(process)
    supervisor.suspend()
    time.sleep(1.5)  # three heartbeats
    supervisor.resume()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert "another takes its place" not in out
    assert finished_and_content(hasty) == undisturbed()


def test_a_killed_supervisor_loses_no_sample_and_leaves_no_process(user: User) -> None:
    user.write(SLOW.replace("seconds: 0.02", "seconds: 0.02, act: litter, at: 1"))
    process = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) > 20)
    (supervisor, *_) = supervisors_of(process)
    family = supervisor.children(recursive=True)
    assert len(family) >= 2  # the slot, and what it left in a session of its own
    supervisor.kill()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    psutil.wait_procs(family, timeout=60)
    assert not any(each.is_running() for each in family)
    cells = [json.loads(content) for content in user.published().values()]
    assert sum(cell["provenance"]["resumed_samples"] for cell in cells) > 0


def test_a_runner_killed_on_a_full_disk_leaves_no_process(user: User) -> None:
    user.write(SLOW.replace("seconds: 0.02", "seconds: 0.02, act: litter, at: 1"))
    process = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) > 20)
    family = psutil.Process(process.pid).children(recursive=True)
    for supervisor in supervisors_of(process):  # which can write no more into the slot's log
        supervisor.rlimit(psutil.RLIMIT_FSIZE, (0, 0))
    process.kill()
    process.communicate()
    psutil.wait_procs(family, timeout=60)
    assert not any(each.is_running() for each in family)


def test_what_outlives_supervisor_and_runner_is_ended_by_the_next_run(hasty: User) -> None:
    hasty.write(SLOW.replace("seconds: 0.02", "seconds: 0.02, act: litter, at: 1"))
    process = hasty.start("run", "study.yaml")
    until(lambda: samples_kept(hasty) > 20)
    family = psutil.Process(process.pid).children(recursive=True)
    psutil.Process(process.pid).suspend()
    for supervisor in supervisors_of(process):
        supervisor.kill()
    process.kill()
    process.communicate()
    hasty.run("run", "study.yaml")
    psutil.wait_procs(family, timeout=60)
    assert not any(each.is_running() for each in family)


def test_a_child_with_a_session_of_its_own_that_is_killed_harms_no_cell(user: User) -> None:
    user.write(SLOW.replace("seconds: 0.02", "seconds: 0.02, act: litter, at: 1"))
    process = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) > 20)
    strays = [
        each
        for supervisor in supervisors_of(process)
        for each in supervisor.children(recursive=True)
        if os.getsid(each.pid) == each.pid
        and each.children() == []
        and "sleep" in each.cmdline()[-1]
    ]
    assert strays
    for stray in strays:
        stray.kill()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert len(user.published()) == 6


def test_a_machine_whose_clock_is_an_hour_ahead_publishes_nothing_twice(
    user: User, gate: Path
) -> None:
    """To it every lease has run out, so it takes the other's cells away, and the other's writes
    are refused: work is lost, and no result."""
    user.write(held(gate))
    ahead = user.folder / "ahead"
    ahead.mkdir()
    (ahead / "sitecustomize.py").write_text(
        "import time\nreal = time.time\ntime.time = lambda: real() + 3600\n"
    )
    first = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) > 10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ahead))
        second = user.start("run", "study.yaml")
    cells = user.results / ".attempts"
    until(lambda: any(len(list(cell.iterdir())) > 1 for cell in cells.iterdir()))
    gate.unlink()
    outs = [run.communicate(timeout=240) for run in (first, second)]
    assert [run.returncode for run in (first, second)] == [0, 0], outs
    assert "released, or held elsewhere now" in outs[0][0]
    finished = attempts_that_finished(user)
    assert len(finished) == len(set(finished)) == 6
    assert finished_and_content(user) == undisturbed()


@pytest.mark.parametrize(
    ("act", "kind", "output"),
    [
        ("act: hang, at: 1", "timeout", "longer than its limit of 5 s"),
        ("act: memory, at: 1", "oom", ""),
        ("act: kill, at: 1", "slot_lost", "SIGKILL"),
        ("act: exit, at: 1", "slot_lost", "exit code 7"),
        ("act: raise, at: 1", "error", "it went wrong on purpose"),
    ],
)
def test_a_cell_that_ends_badly_has_its_reason_and_the_others_go_on(
    user: User, act: str, kind: str, output: str
) -> None:
    user.write(TWO.replace("ACT", act).replace("CELL", "5s" if kind == "timeout" else "60s"))
    out = user.run("run", "study.yaml", code=1).stdout
    assert output in out
    status = user.json("status", "study.yaml")
    assert (status["success"], status["failed"] + status["partial"]) == (2, 2)
    summary = json.loads((user.results / "execution_summary.json").read_text())
    assert {failure["kind"] for failure in summary["failures"]} == {kind}
    again = user.json("retry", "study.yaml", "--kind", kind)
    assert len(again["pending_again"]) == 2


@pytest.mark.parametrize(
    "act", ["act: print, at: 1", "act: flood, at: 1, size: 104857600", "act: unicode, at: 1"]
)
def test_what_a_benchmark_prints_and_answers_reaches_nothing_but_its_files(
    user: User, act: str
) -> None:
    user.write(TWO.replace("ACT", act).replace("CELL", "60s"))
    done = user.run("run", "study.yaml")
    assert len(user.published()) == 4
    assert len(done.stdout) < 10_000
    assert len(done.stderr) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_was_ended(hasty: User, number: signal.Signals) -> None:
    hasty.write(SLOW.replace("seconds: 0.02", "seconds: 0.02, act: litter, at: 1"))
    process = hasty.start("run", "study.yaml")
    until(lambda: samples_kept(hasty) > 20)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 3
    process.send_signal(number)
    process.communicate(timeout=60)
    psutil.wait_procs(family, timeout=60)
    assert not any(each.is_running() for each in family)
    hasty.run("run", "study.yaml")
    hidden = {entry.name for entry in hasty.results.iterdir() if entry.name.startswith(".")}
    assert hidden <= {".attempts", ".folder", ".runners", ".slots"}
    assert list((hasty.results / ".attempts").iterdir()) == []


def test_a_wrong_length_of_leases_is_refused(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.write(MOCK)
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "soon")
    output = user.run("run", "study.yaml", code=3).stderr
    assert "invalid BENCHFLEET_LEASE_SECONDS 'soon'" in output
    assert not user.results.exists()
