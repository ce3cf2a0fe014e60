"""Time limits as Slurm reads them, job names, and options that sbatch would misread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.errors import BenchfleetError
from benchfleet.slurm.script import TEMPLATE, PilotSpec, batch_script, job_name, time_limit_s

SPEC = PilotSpec(name="bf", command=["work"], folder=Path("/a b"), logs=Path("/a b/logs"), time="2")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("4:00:00", 14_400),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("2-0:0:5", 172_805),
    ],
)
def test_a_time_limit_is_read_as_sbatch_reads_it(text: str, seconds: int) -> None:
    assert time_limit_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "soon", "-5", "1:2:3:4", "4h", "UNLIMITED"])
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text or "^$"):
        time_limit_s(text)


def test_each_campaign_ledger_and_folder_has_a_name_that_every_command_takes() -> None:
    names = {
        job_name("a b,c", "sqlite:/x", Path("/r")),
        job_name("a b,c", "sqlite:/y", Path("/r")),
        job_name("a b,c", "sqlite:/x", Path("/s")),
    }
    assert len(names) == 3
    assert all(name.startswith("bf-a_b_c-") for name in names)
    assert len(job_name("x" * 500, "", Path("/r"))) < 64


def test_paths_with_spaces_are_quoted_and_a_short_limit_has_a_short_warning() -> None:
    script = batch_script(SPEC, TEMPLATE.read_text())
    assert "#SBATCH --output='/a b/logs/%A_%a.log'" in script
    assert "cd '/a b' || exit 1" in script
    assert "#SBATCH --signal=B:USR1@30" in script


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("#!/bin/sh\n{{sbatch}} {{command}} {{gpus}}", "unknown placeholder {{gpus}}"),
        ("#!/bin/sh\n{{command}}", "no {{sbatch}}"),
        ("#!/bin/sh\n{{sbatch}}", "no {{command}}"),
        ("{{sbatch}} {{command}}", "must begin with #!"),
    ],
)
def test_a_template_without_which_no_pilot_works_is_refused(template: str, message: str) -> None:
    with pytest.raises(BenchfleetError) as error:
        batch_script(SPEC, template)
    assert message in str(error.value)


def test_an_option_cannot_smuggle_in_a_line() -> None:
    with pytest.raises(BenchfleetError, match="is not an option of sbatch"):
        batch_script(replace(SPEC, options=["--a\nrm -r x"]), TEMPLATE.read_text())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--job-name=foo", "known by their name"),
        ("-Jfoo", "known by their name"),
        ("-J foo", "known by their name"),
        ("--account=lab --job foo", "known by their name"),
        ("--output=x.log", "in .slurm of the results"),
        ("-o x.log", "in .slurm of the results"),
        ("--error=x.log", "in .slurm of the results"),
        ("-ex.log", "in .slurm of the results"),
        ("--array=0-9", "use --workers"),
        ("-t 10", "--time of submit"),
    ],
)
def test_an_option_that_submit_sets_itself_is_refused(option: str, message: str) -> None:
    template = TEMPLATE.read_text()
    with pytest.raises(BenchfleetError, match=message):
        batch_script(replace(SPEC, options=[option]), template)
    with pytest.raises(BenchfleetError, match=message):
        batch_script(SPEC, template.replace("{{sbatch}}", f"{{{{sbatch}}}}\n#SBATCH {option}"))


@pytest.mark.parametrize(
    "option", ["--account=lab", "-A eof", "--export=ALL", "--time-min=5", "-c4"]
)
def test_other_options_are_passed_on(option: str) -> None:
    script = batch_script(replace(SPEC, options=[option]), TEMPLATE.read_text())
    assert f"#SBATCH {option}\n" in script
