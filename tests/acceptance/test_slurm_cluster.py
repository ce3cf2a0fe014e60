"""Pilots on a real Slurm of two nodes: time limits, pre-emption, requeues, failures."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from guide_runner import ROOT, guide_in
from repositories import make_bare
from slurm_cluster import SlurmCluster

from .cluster_pilots import (
    BOUND_S,
    all_published,
    freeze,
    log_of,
    pilots,
    records,
    runs_again,
    states,
    tries,
    workers,
)
from .conftest import User, samples_kept, until

LEDGER = "git+file:lab.git"
AT = ("study.yaml", "--ledger", LEDGER)
PILOT = ("--time", "10", "--work=--cpu-slots 1")
CELLS = """
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks:
    - _hostile: {samples: 4, act: wait, at: 2, shared: GATE}
"""
SCRIPT = """\
    - command: {name: script, argv: [sh, COMMAND, "{result}"]}
"""
COMMAND = """\
while test -e GATE; do sleep 1; done
echo '{"score": 1}' > "$1"
"""
SLOW = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 9999, seconds: 0.1}}]
"""


@pytest.fixture(scope="session")
def cluster() -> Iterator[SlurmCluster]:
    """A running cluster for the whole session; a test leaves it without jobs."""
    cluster = SlurmCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def slurm(
    cluster: SlurmCluster, user: User, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmCluster]:
    """The cluster, as the user reaches it."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "20")
    make_bare(user.folder / "lab.git")
    yield cluster
    cluster.cancel_all()


@pytest.fixture
def gate(user: User) -> Path:
    """The file that holds each cell at its third sample while it exists."""
    gate = user.write("", "gate")
    user.write(f"{CELLS}defaults: {{repeats: 2}}\n".replace("GATE", str(gate)))
    return gate


def test_pilots_share_the_cells_know_their_end_and_leave_when_nothing_is_left(
    slurm: SlurmCluster, user: User, gate: Path
) -> None:
    submitted = user.json("slurm", "submit", *AT, *PILOT, "--workers", "5", "--idle-exit", "2")
    assert (submitted["submitted"], submitted["waiting_cells"]) == (2, 2)
    until(lambda: samples_kept(user) == 4, BOUND_S)
    job = submitted["job"]
    status = user.json("slurm", "status", *AT)
    assert {one["job"] for one in status["pilots"]} == {f"{job}_0", f"{job}_1"}
    running = [cell for one in status["pilots"] for cell in one["cells"]]
    assert sorted(running) == ["m1/dense/_hostile/r0", "m1/dense/_hostile/r1"]
    shown = slurm.ask("squeue", "--noheader", "--array", f"--job={job}_0", "--format=%e")
    expected = str(int(datetime.fromisoformat(shown).timestamp()))
    assert expected in [word for process in workers(user) for word in process.cmdline()]
    again = user.json("slurm", "submit", *AT, *PILOT, "--workers", "5", "--idle-exit", "2")
    assert again["submitted"] == 0
    gate.unlink()
    until(lambda: not pilots(slurm), BOUND_S)
    assert states(user) == {"success"}
    for task in (0, 1):
        shown = slurm.ask("scontrol", "show", "job", f"{job}_{task}")
        assert "JobState=COMPLETED" in shown
        assert "ExitCode=0:0" in shown
    assert user.json("slurm", "submit", *AT, *PILOT, "--workers", "5")["submitted"] == 0


def test_a_pilot_at_its_time_limit_releases_its_cell_and_ends_well(
    slurm: SlurmCluster, user: User
) -> None:
    """The job sets its limit to little more than what a pilot keeps in reserve. Slurm may warn half
    a minute early, so the warning of a job of one minute comes after the pilot's own end."""
    user.write(SLOW)
    prelude = user.write(
        "end=$(date --date='80 seconds' +%Y-%m-%dT%H:%M:%S)\n"
        "scontrol update JobId=$SLURM_JOB_ID EndTime=$end\n",
        "prelude.sh",
    )
    limit = ("--time", "1", "--work=--cpu-slots 1", "--prelude", str(prelude))
    job = user.json("slurm", "submit", *AT, *limit, "--workers", "1")["job"]
    until(lambda: samples_kept(user) >= 2, BOUND_S)
    until(lambda: not pilots(slurm), 2 * BOUND_S)
    shown = slurm.ask("scontrol", "show", "job", job)
    assert "JobState=COMPLETED" in shown, f"{shown}\n{log_of(user)}"
    assert states(user) == {"pending"}
    assert tries(user) == 0
    assert 2 <= samples_kept(user) < 9999
    log = next(user.results.glob(".slurm/*.log")).read_text()
    assert "the time of this runner is over" in log, log


def test_the_warning_before_the_end_reaches_the_worker_alone(
    slurm: SlurmCluster, user: User
) -> None:
    user.write(SLOW)
    job = user.json("slurm", "submit", *AT, *PILOT, "--workers", "1")["job"]
    until(lambda: samples_kept(user) >= 2, BOUND_S)
    slurm.ask("scancel", "--signal=USR1", "--batch", f"{job}_0")
    until(lambda: not pilots(slurm), BOUND_S)
    assert "JobState=COMPLETED" in slurm.ask("scontrol", "show", "job", job)
    assert (states(user), tries(user)) == ({"pending"}, 0)
    assert samples_kept(user) >= 2
    assert "SIGUSR1" in next(user.results.glob(".slurm/*.log")).read_text()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["preempted", "requeued"])
def test_a_pilot_that_makes_room_is_not_final_and_its_cells_lose_no_try(
    slurm: SlurmCluster, user: User, gate: Path, how: str
) -> None:
    """Slurm signals all processes of the job, so the script may end before the worker acts."""
    command = user.write(COMMAND.replace("GATE", str(gate)), "command.sh")
    cells = f"{CELLS}{SCRIPT}".replace("GATE", str(gate))
    user.write(cells.replace("COMMAND", str(command)))
    job = user.json("slurm", "submit", *AT, *PILOT, "--workers", "2")["job"]
    until(lambda: len([one for one in records(user) if one.state == "running"]) == 2, BOUND_S)
    until(lambda: samples_kept(user) == 2, BOUND_S)
    if how == "preempted":
        high = slurm.ask(
            "sbatch",
            "--parsable",
            "--partition=high",
            "--nodes=2",
            "--exclusive",
            "--output=/dev/null",
            "--wrap=sleep 1",
        )
        until(lambda: high not in pilots(slurm), BOUND_S)
    else:
        slurm.ask("scontrol", "requeue", f"{job}_0,{job}_1")
    until(lambda: states(user) == {"pending"}, BOUND_S)
    assert tries(user) == 0
    again = user.json("slurm", "submit", *AT, *PILOT, "--workers", "2")
    assert again["submitted"] == 0  # they wait to run again
    until(lambda: runs_again(slurm), BOUND_S)
    gate.unlink()
    until(lambda: all_published(user), BOUND_S)
    assert tries(user) == 0
    assert "Restarts=1" in slurm.ask("scontrol", "show", "job", f"{job}_0")
    answers = (user.results / "m1/dense/_hostile/samples.jsonl").read_text()
    assert answers.count("\n") == 4


@pytest.mark.timeout(600)
def test_a_pilot_of_a_lost_node_that_thaws_publishes_nothing(
    slurm: SlurmCluster, user: User, gate: Path
) -> None:
    user.write(CELLS.replace("GATE", str(gate)))
    user.run("slurm", "submit", *AT, *PILOT, "--workers", "1")
    until(lambda: samples_kept(user) == 2, BOUND_S)
    node = slurm.ask("squeue", "--noheader", "--array", "--format=%N")
    (old,) = workers(user)
    family = [old, *old.children(recursive=True)]
    slurm.kill(node)
    try:
        freeze(family, user)
        until(lambda: runs_again(slurm) and len(workers(user)) == 2, 2 * BOUND_S)
        assert old.is_running()  # two pilots of one job
        gate.unlink()
        until(lambda: all_published(user), BOUND_S)
        sealed = user.published()
        for process in reversed(family):
            process.send_signal(signal.SIGCONT)
        until(lambda: not old.is_running() or old.status() == psutil.STATUS_ZOMBIE
              or "held elsewhere now" in log_of(user), BOUND_S)  # fmt: skip
        assert user.published() == sealed
        (record,) = records(user)
        assert record.state == "success"
        assert tries(user) == 0
    finally:
        slurm.start_node(node)


@pytest.mark.timeout(600)
def test_without_the_controller_pilots_go_on_and_nothing_is_submitted_twice(
    slurm: SlurmCluster, user: User, gate: Path
) -> None:
    words = ("slurm", "submit", *AT, *PILOT, "--workers", "2", "--idle-exit", "2")
    user.json(*words)
    until(lambda: samples_kept(user) == 4, BOUND_S)
    slurm.kill_controller()
    try:
        refused = user.run(*words, code=2)
        assert "Unable to contact slurm controller" in refused.stderr
        status = user.run("slurm", "status", *AT, code=1).stdout
        assert "pilots unknown, not gone: squeue: " in status
        assert "by the ledger" in status
        gate.unlink()
        until(lambda: all_published(user), BOUND_S)
    finally:
        slurm.start_controller()
        until(slurm.answers, BOUND_S)
    until(lambda: not pilots(slurm), BOUND_S)
    assert tries(user) == 0
    assert user.json(*words)["submitted"] == 0


def test_an_sqlite_ledger_is_shared_once_its_locks_were_tested_on_two_nodes(
    slurm: SlurmCluster, user: User, gate: Path
) -> None:
    gate.unlink()
    submit = ("slurm", "submit", "study.yaml", *PILOT, "--workers", "2", "--idle-exit", "2")
    done = user.run(*submit)
    assert "the test passed on n1, n2, " in done.stderr
    until(lambda: user.json("status", "study.yaml")["success"] == 2, BOUND_S)
    assert not list(user.results.glob("ledger.db-wal"))
    until(lambda: not pilots(slurm), BOUND_S)
    assert "testing" not in user.run(*submit).stderr


def test_cancelled_pilots_release_their_cells_first(
    slurm: SlurmCluster, user: User, gate: Path
) -> None:
    user.run("slurm", "submit", *AT, *PILOT, "--workers", "2")
    until(lambda: samples_kept(user) == 4, BOUND_S)
    refused = user.run("slurm", "cancel", *AT, code=2).stderr
    assert "this would cancel 2 pilots; add --yes" in refused
    assert len(user.json("slurm", "cancel", *AT, "--yes")["cancelled"]) == 2
    until(lambda: not pilots(slurm), BOUND_S)
    assert (states(user), tries(user)) == ({"pending"}, 0)
    assert samples_kept(user) == 4


def test_the_guide_does_what_it_says(slurm: SlurmCluster, user: User) -> None:
    with guide_in(user.folder, **slurm.environment) as guide:
        guide.run(ROOT / "docs/guides/slurm.md")
