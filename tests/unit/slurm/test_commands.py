"""Reading what Slurm's commands print, and telling their failures apart."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from benchfleet.slurm.commands import Pilot, Run, Slurm, SlurmAway, SlurmError


def answers(output: str = "", error: str = "", code: int = 0) -> Run:
    def run(words: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, code, output, error)

    return run


def test_the_queue_is_read_with_reasons_that_have_any_character() -> None:
    lines = "12_0|RUNNING|1-02:00:00|n1|None\n12_1|PENDING|4:00:00||(a|b)\n\nnoise\n"
    assert Slurm(answers(lines)).pilots("bf") == [
        Pilot(job="12_0", state="RUNNING", time_left="1-02:00:00", node="n1", reason=""),
        Pilot(job="12_1", state="PENDING", time_left="", node="", reason="(a|b)"),
    ]


@pytest.mark.parametrize("output", ["17\n", "17;cluster\n", "a site's greeting\n17;cluster\n"])
def test_the_number_of_a_job_is_in_the_last_line(output: str) -> None:
    assert Slurm(answers(output)).submit("#!/bin/sh", 2) == "17"


def test_a_submission_without_a_number_is_an_error() -> None:
    with pytest.raises(SlurmError, match="no job number"):
        Slurm(answers("hello")).submit("#!/bin/sh", 2)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("Unable to contact slurm controller (connect failure)", SlurmAway),
        ("slurm_load_jobs error: Socket timed out on send/recv operation", SlurmAway),
        ("slurm_load_jobs error: Zero Bytes were transmitted or received", SlurmAway),
        ("Batch job submission failed: Invalid account", SlurmError),
        ("sbatch: error: invalid partition specified: gpus", SlurmError),
    ],
)
def test_a_controller_that_is_away_differs_from_a_refusal(
    error: str, kind: type[SlurmError]
) -> None:
    with pytest.raises(SlurmError) as raised:
        Slurm(answers(error=error, code=1)).pilots("bf")
    assert type(raised.value) is kind
    assert error in str(raised.value)


def test_a_command_that_hangs_is_away_too() -> None:
    def hangs(words: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(words, 120)

    with pytest.raises(SlurmAway, match="squeue has not answered for 120 s"):
        Slurm(hangs).pilots("bf")
