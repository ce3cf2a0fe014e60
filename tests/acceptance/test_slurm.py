"""``benchfleet slurm`` with commands that stand for Slurm's own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from fake_slurm import FakeSlurm
from repositories import make_bare

from .conftest import MOCK, User, samples_kept, until, wait_for_line

AT = ("study.yaml", "--ledger", "git+file:lab.git")
TIME = ("--time", "1:00:00")
SUBMIT = ("slurm", "submit", *AT, *TIME, "--work=--cpu-slots 1")
FAILING = """\
campaign: study
matrix:
  models: [{name: m1, adapter: none}]
  configs: {dense: null}
  benchmarks: [command: {name: fails, argv: ["false"]}]
defaults: {repeats: 2}
"""
AWAY = "Unable to contact slurm controller (connect failure)"


@pytest.fixture
def slurm(user: User, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """An empty queue, and a campaign of ten cells."""
    fake = FakeSlurm(user.folder / "bin")
    fake.install()
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    make_bare(user.folder / "lab.git")
    user.write(MOCK + "defaults: {repeats: 5}\n")
    return fake


def run_script(user: User, slurm: FakeSlurm, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the submitted script as Slurm would."""
    return subprocess.run(
        ["bash", "-s"],
        input=slurm.script,
        env={**user.environment, "SLURM_JOB_ID": "7", **variables},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_the_script_runs_a_worker_that_does_all_cells(user: User, slurm: FakeSlurm) -> None:
    submitted = user.json(*SUBMIT, "--workers", "2", "--idle-exit", "1")
    assert submitted == {
        "campaign": "study",
        "submitted": 2,
        "job": "1",
        "queued": 2,
        "running": 0,
        "ending": 0,
        "waiting_cells": 10,
        "failed_cells": 0,
        "too_long": [],
        "paused_until": 0.0,
    }
    assert slurm.calls("sbatch") == [["--parsable", "--array=0-1"]]
    options = re.findall("^#SBATCH (.*)$", slurm.script, re.M)
    assert "--signal=B:USR1@90" in options
    assert "--requeue" in options
    assert "--open-mode=append" in options
    assert f"--output={user.results}/.slurm/%A_%a.log" in options
    done = run_script(user, slurm, SLURM_ARRAY_JOB_ID="1", SLURM_ARRAY_TASK_ID="0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(user.published()) == 10
    slurm.become("GONE")
    assert user.json(*SUBMIT, "--workers", "2")["submitted"] == 0


@pytest.mark.parametrize(
    ("known_by", "expected"),
    [("slurm", 1234567890), ("squeue", 1234567000), ("nobody", None), ("nonsense", None)],
)
def test_a_pilot_knows_its_end_also_without_the_controller(
    user: User, slurm: FakeSlurm, known_by: str, expected: int | None
) -> None:
    prelude = user.write('exec() { echo "runs $*"; }\n', "prelude.sh")
    user.run(*SUBMIT, "--workers", "1", "--prelude", str(prelude))
    text = {"squeue": "2009-02-13T23:16:40", "nonsense": "N/A"}.get(known_by, "")
    failing = "" if text else "exit 1"
    (slurm.folder / "squeue").write_text(f'#!/bin/sh\necho "$@" > {user.folder}/asked\n'
                                         f"echo {text}\n{failing}\n")  # fmt: skip
    variables = {"SLURM_JOB_END_TIME": "1234567890"} if known_by == "slurm" else {}
    now = time.time()
    done = run_script(user, slurm, TZ="UTC", SLURM_ARRAY_JOB_ID="4", SLURM_ARRAY_TASK_ID="2",
                      **variables)  # fmt: skip
    ends_at = int(done.stdout.split()[-1])
    if expected is None:
        assert now + 3600 - 1 <= ends_at <= time.time() + 3600
    else:
        assert ends_at == expected
    if known_by != "slurm":
        assert "--job=4_2" in (user.folder / "asked").read_text()


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
    assert "the last pilots ended without ending a cell" in user.run(*words).stdout
    assert user.json(*words, "--now")["submitted"] == 2
    slurm.become("GONE")
    assert 60 < user.json(*words)["paused_until"] - time.time() <= 120
    user.run("run", *AT, "--only", "repeats=0", "--cpu-slots", "1")  # cells that ended
    assert user.json(*words)["submitted"] == 2


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
    assert cancelled == (
        "  cancelled  1_0  stops after the sample at hand and releases its cells\n"
    )
    assert "nothing to cancel" in user.run("slurm", "cancel", *AT, "--yes").stdout


def test_modules_a_container_and_more_options_are_in_the_script(
    user: User, slurm: FakeSlurm
) -> None:
    prelude = user.write("export HF_HOME=/scratch/hub\n", "prelude.sh")
    words = [
        *("--module", "cuda/12", "--module", "apptainer", "--prelude", str(prelude)),
        *("--container", "lab.sif", "--container-option=--bind=/data", "--partition", "gpu"),
        *("--gres", "gpu:a100:1", "--sbatch=--account=lab", "--dry-run", "--workers", "3"),
    ]
    script = user.run(*SUBMIT, *words).stdout
    lines = script.splitlines()
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
    for option in ("--account=lab", "--gres=gpu:a100:1", "--partition=gpu"):
        assert f"#SBATCH {option}" in lines
    assert lines.index("module load cuda/12 apptainer || exit 1") < lines.index(
        "export HF_HOME=/scratch/hub"
    )
    (command,) = [line for line in lines if line.startswith("exec ")]
    assert command.startswith(
        f"exec apptainer exec --nv --bind {user.folder} --bind=/data lab.sif "
    )
    assert "lab.sif benchfleet work study.yaml --ledger git+file:lab.git --cpu-slots 1" in command
    assert slurm.jobs() == []
    own = "#!/bin/sh\n{{sbatch}}\n#SBATCH --mem=64G\nexec {{command}}\n"
    printed = user.run(*SUBMIT, *words, "--template", str(user.write(own, "own.sh"))).stdout
    assert "#SBATCH --mem=64G\nexec apptainer" in printed


def test_a_worker_in_a_container_ends_with_the_signal_that_slurm_sends_to_the_job(
    user: User, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for apptainer that passes signals on, as apptainer does without a terminal."""
    apptainer = user.write(
        '#!/bin/bash\nshift 5; "$@" & worker=$!\n'
        "trap 'kill -USR1 $worker' USR1; wait $worker; wait $worker\n",
        "bin/apptainer",
    )
    apptainer.chmod(0o755)
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    gate = user.write("", "gate")
    user.write(f"""\
campaign: study
matrix:
  models: [{{name: m1, adapter: mock}}]
  configs: {{dense: null}}
  benchmarks: [{{_hostile: {{samples: 400, seconds: 0.1, act: wait, at: 1, shared: {gate}}}}}]
""")
    user.run(*SUBMIT, "--workers", "1", "--container", "lab.sif")
    script = user.write(slurm.script, "script.sh")
    job = subprocess.Popen(["bash", str(script)], env={**user.environment, "SLURM_JOB_ID": "7"})
    try:
        until(lambda: samples_kept(user) == 1)
        gate.unlink()
        job.send_signal(signal.SIGUSR1)
        assert job.wait(60) == 0
    finally:
        job.kill()
        job.wait()
    assert user.json("status", *AT)["pending"] == 1


def test_an_sqlite_ledger_is_refused_where_the_test_of_its_locks_has_no_result(
    user: User, slurm: FakeSlurm
) -> None:
    process = user.start("slurm", "submit", "study.yaml", *TIME, "--workers", "2")
    until(slurm.jobs)
    assert "#SBATCH --nodes=2" in slurm.script
    assert "exec srun " in slurm.script
    slurm.become("GONE")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "the job of the test ended before all machines took part" in err
    assert "--ledger git+file:/shared/lab.git" in err
    assert not list(user.results.glob("*ledger.db*"))
    assert not list(user.results.glob(".ledger.db*"))


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
