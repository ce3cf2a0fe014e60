"""Pilots that a user submits, looks at and cancels, with commands that stand for Slurm's own."""

from __future__ import annotations

import json
import signal
import time

import pytest

from fake_slurm import FakeSlurm

from .conftest import User, samples_kept, until, wait_for_line
from .slurm_queue import AT, SUBMIT, TIME, empty_queue

FAILING = """\
campaign: study
matrix:
  models: [{name: m1, adapter: none}]
  configs: {dense: null}
  benchmarks: [command: {name: fails, argv: ["false"]}]
defaults: {repeats: 2}
"""
LONG = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 9999, seconds: 0.1}}]
"""
AWAY = "Unable to contact slurm controller (connect failure)"


@pytest.fixture
def slurm(user: User, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """An empty queue, and a campaign of ten cells."""
    return empty_queue(user, monkeypatch)


def test_as_many_pilots_as_asked_for_and_no_more_in_the_queue_than_allowed(
    user: User, slurm: FakeSlurm
) -> None:
    words = (*SUBMIT, "--workers", "5", "--max-queued", "3")
    assert [user.json(*words)["submitted"] for _ in range(2)] == [3, 0]
    slurm.become("RUNNING")
    assert [user.json(*words)["submitted"] for _ in range(2)] == [2, 0]
    slurm.become("RUNNING")
    assert user.json(*words)["submitted"] == 0
    assert len(slurm.jobs()) == 5
    many = user.json(*SUBMIT, "--workers", "500", "--max-queued", "500")
    assert many["submitted"] == 5  # ten cells, five pilots there


def test_nothing_is_submitted_while_slurm_does_not_answer_and_nothing_twice(
    user: User, slurm: FakeSlurm
) -> None:
    words = (*SUBMIT, "--workers", "2")
    slurm.fails(squeue=AWAY)
    assert AWAY in user.run(*words, code=2).stderr
    slurm.fails(sbatch=AWAY)
    assert AWAY in user.run(*words, code=2).stderr
    assert slurm.jobs() == []
    slurm.fails(sbatch="late Batch job submission failed: Socket timed out on send/recv operation")
    assert "Socket timed out" in user.run(*words, code=2).stderr
    slurm.fails()
    assert user.json(*words)["submitted"] == 0  # it had been submitted all the same
    assert len(slurm.jobs()) == 2
    slurm.fails(squeue=AWAY)
    status = user.json("slurm", "status", *AT, code=1)
    assert status["pilots"] is None
    assert AWAY in status["problem"]
    slurm.fails(sbatch="Batch job submission failed: Invalid account")
    slurm.become("GONE")
    assert "Invalid account" in user.run(*words, "--now", code=2).stderr


def test_of_several_who_submit_at_once_one_does(user: User, slurm: FakeSlurm) -> None:
    processes = [user.start(*SUBMIT, "--workers", "2", "--json") for _ in range(4)]
    submitted = [
        json.loads(process.communicate(timeout=120)[0])["submitted"] for process in processes
    ]
    assert sorted(submitted) == [0, 0, 0, 2]
    assert len(slurm.jobs()) == 2


def test_pilots_that_achieve_nothing_are_followed_by_others_ever_later(
    user: User, slurm: FakeSlurm
) -> None:
    words = (*SUBMIT, "--workers", "2")
    user.run(*words)
    slurm.become("GONE")
    paused = user.json(*words)
    assert (paused["submitted"], slurm.jobs()) == (0, [])
    assert 0 < paused["paused_until"] - time.time() <= 60
    said = user.run(*words).stdout
    assert "the last pilots ended no cell and recorded no new sample, see benchmark_results" in said
    assert "/study/.slurm/*.log; more are submitted after" in said
    log = user.results / ".slurm/17_0.log"
    log.write_text("job starts\nmodule: cuda/99 not found\n\n")
    assert ".log (module: cuda/99 not found); more are submitted" in user.run(*words).stdout
    why = "cannot run here: m1/dense/mock_benchmark: needs 2 GPUs, this run has 1"
    log.write_text(f"job starts\n{why}\nresults  there\n")
    assert f".log ({why}); more are submitted" in user.run(*words).stdout
    assert user.json(*words, "--now")["submitted"] == 2
    slurm.become("GONE")
    assert 60 < user.json(*words)["paused_until"] - time.time() <= 120
    user.run("run", *AT, "--only", "repeats=0", "--cpu-slots", "1")  # cells that ended
    assert user.json(*words)["submitted"] == 2


def test_pilots_that_recorded_samples_of_a_long_cell_are_followed_at_once(
    user: User, slurm: FakeSlurm
) -> None:
    user.write(LONG)
    words = (*SUBMIT, "--workers", "1")
    user.run(*words)
    for _ in range(2):
        least = 2 * samples_kept(user) + 2  # the next attempt takes over those of the last one
        worker = user.start("work", *AT, "--cpu-slots", "1")
        until(lambda least=least: samples_kept(user) > least)  # type: ignore[misc]
        worker.send_signal(signal.SIGUSR1)
        worker.communicate(timeout=60)
        slurm.become("GONE")
        assert user.json(*words)["submitted"] == 1
    slurm.become("GONE")
    assert user.json(*words)["submitted"] == 0


def test_pilots_that_ended_cells_are_followed_at_once_also_if_the_cells_wait_again(
    user: User, slurm: FakeSlurm
) -> None:
    """A retry, and a campaign with other cells, make the number of ended cells smaller."""
    chosen = ("--only", "repeats=0", "--workers", "1")
    user.run(*SUBMIT, *chosen)
    user.write(FAILING)
    user.run("run", *AT, "--only", "repeats=0", "--cpu-slots", "1", code=1)
    slurm.become("GONE")
    submitted = user.run(*SUBMIT, "--workers", "1").stdout
    assert "1 pilot submitted" in submitted
    assert (
        "1 cell failed, see benchfleet failures study.yaml --ledger git+file:lab.git" in submitted
    )
    assert " 1 ended (1 failed) " in user.run("slurm", "status", *AT).stdout
    user.run("run", *AT, "--cpu-slots", "1", code=1)
    user.run("retry", *AT, "--yes")
    slurm.become("GONE")
    assert user.json(*SUBMIT, *chosen)["submitted"] == 1


def test_cancelled_pilots_cause_no_pause(user: User, slurm: FakeSlurm) -> None:
    words = (*SUBMIT, "--only", "repeats=0", "--workers", "1")
    assert "watch    benchfleet slurm status study.yaml --ledger git+file:lab.git\n" in (
        user.run(*words).stdout
    )
    user.run("slurm", "cancel", *AT, "--yes")
    assert user.json(*words)["submitted"] == 1


def test_keeping_it_submits_more_while_cells_wait_and_ends_when_none_is_left(
    user: User, slurm: FakeSlurm
) -> None:
    slurm.fails(squeue=AWAY)
    process = user.start(*SUBMIT, "--workers", "2", "--keep", "--every", "0.5")
    until(lambda: len(slurm.calls("squeue")) >= 2)  # it looks again
    assert slurm.jobs() == []
    slurm.fails()
    until(lambda: len(slurm.jobs()) == 2)
    user.run("run", *AT, "--only", "repeats=0", "--cpu-slots", "1")
    slurm.become("GONE")
    until(lambda: len(slurm.jobs()) == 2)
    user.run("run", *AT, "--cpu-slots", "1")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.rstrip().splitlines()[-1].startswith("study: no cell waits")
    assert err.count("Unable to contact") >= 2
    assert "looking again in 1 s" in err
    assert len(slurm.calls("sbatch")) == 2


def test_keeping_it_is_ended_by_ctrl_c_and_leaves_the_pilots(user: User, slurm: FakeSlurm) -> None:
    process = user.start(*SUBMIT, "--workers", "2", "--keep")
    wait_for_line(process, "watch")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "end them: benchfleet slurm cancel study.yaml --ledger git+file:lab.git" in out
    assert len(slurm.jobs()) == 2


def test_status_and_cancel_name_each_pilot(user: User, slurm: FakeSlurm) -> None:
    user.run(*SUBMIT, "--workers", "1")
    slurm.become("RUNNING")
    user.run(*SUBMIT, "--workers", "2")
    assert user.run("slurm", "status", *AT).stdout.splitlines() == [
        "study: 10 cells · 0 ended · 0 running · 10 waiting",
        "2 pilots: 1 queued, 1 running",
        "  1_0  RUNNING  n1  59:30 left",
        "  2_0  PENDING  (Priority)",
    ]
    assert user.json("slurm", "cancel", *AT, "--queued", "--yes")["cancelled"] == ["2_0"]
    again = user.run("slurm", "cancel", *AT, "--queued", "--yes").stdout
    assert again == "nothing to cancel: no pilot waits\n"
    slurm.become("COMPLETING")
    assert "1 pilot: 0 queued, 0 running, 1 ending" in user.run("slurm", "status", *AT).stdout
    slurm.become("RUNNING")
    cancelled = user.run("slurm", "cancel", *AT, "--yes").stdout
    assert cancelled == "  cancelled  1_0  stops, and releases its cells\n"
    assert "nothing to cancel" in user.run("slurm", "cancel", *AT, "--yes").stdout


def test_cells_that_take_longer_than_a_pilot_runs_are_named_and_cause_no_pilot(
    user: User, slurm: FakeSlurm
) -> None:
    user.write("""\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 1, seconds: 2}}]
defaults: {repeats: 2}
""")
    user.run("run", *AT, "--only", "repeats=0", "--cpu-slots", "1")
    words = ("slurm", "submit", *AT, "--time", "0:61", "--workers", "2")  # a minute is kept free
    assert user.json(*words)["too_long"] == ["m1/dense/_hostile/r1"]
    printed = user.run(*words).stdout
    assert printed.startswith("study: 1 cell waits")
    assert (
        "1 cell needs a longer --time: m1/dense/_hostile/r1; use --time 2 (minutes) or more"
        in printed
    )
    assert slurm.jobs() == []
    assert user.json("slurm", "submit", *AT, "--time", "2", "--workers", "2")["submitted"] == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--time", "soon"), 2, "invalid time limit 'soon': use 90 (minutes), 4:00:00"),
        (("--sbatch", "lab"), 2, "'lab' is not an option of sbatch"),
        (("--work=--cpu-slot 2",), 2, "did you mean --cpu-slots?"),
        (("--work=--detach",), 2, "would end the pilot at once"),
        (("--prelude", "none.sh"), 2, "--prelude none.sh cannot be read"),
        (("--template", "study.yaml"), 2, "the template has no {{command}}"),
        (("--workers", "0"), 2, "use a whole number from 1"),
    ],
)
def test_wrong_options_submit_nothing(
    user: User, slurm: FakeSlurm, words: tuple[str, ...], code: int, message: str
) -> None:
    assert message in user.run(*SUBMIT, "--workers", "1", *words, code=code).stderr
    assert slurm.jobs() == []


def test_a_password_or_a_machine_without_slurm_is_refused(
    user: User, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "postgresql://me:hush-hush@db.lab/bench"
    words = ("slurm", "submit", "study.yaml", *TIME, "--workers", "1", "--ledger", address)
    refused = user.run(*words, code=2).stderr
    assert "contains a password" in refused
    assert "hush-hush" not in refused
    (slurm.folder / "squeue").unlink()
    monkeypatch.setenv("PATH", str(slurm.folder))
    assert "no command squeue here" in user.run("slurm", "status", "study.yaml", code=2).stderr
