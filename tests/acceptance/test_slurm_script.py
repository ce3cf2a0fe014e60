"""The script that ``benchfleet slurm submit`` hands to Slurm, and what it runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from fake_slurm import FakeSlurm

from .conftest import User, samples_kept, until
from .slurm_queue import AT, SUBMIT, empty_queue


@pytest.fixture
def slurm(user: User, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """An empty queue, and a campaign of ten cells."""
    return empty_queue(user, monkeypatch)


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
