"""The batch script of a pilot: its options, its prelude and its command, in a template."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchfleet.errors import BenchfleetError

TEMPLATE = Path(__file__).with_name("pilot.sh.txt")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_WARNING_S = 90  # seconds between Slurm's warning and the end, where the limit leaves room
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_LOGS = "the logs of pilots are in .slurm of the results folder"
_OWN = {  # options that `submit` sets itself, in both spellings, and why or how
    "--job-name": ("-J", "pilots are known by their name"),
    "--output": ("-o", _LOGS),
    "--error": ("-e", _LOGS),
    "--array": ("-a", "use --workers"),
    "--time": ("-t", "use --time of submit"),
}


@dataclass(frozen=True, kw_only=True)
class PilotSpec:
    """What all pilots of a submission have in common."""

    name: str  # of the jobs
    command: Sequence[str]  # what it runs
    folder: Path  # where it starts
    logs: Path  # the folder of its logs
    time: str  # the limit, as Slurm reads it
    partition: str = ""
    gres: str = ""
    options: Sequence[str] = ()  # more options of sbatch, such as --account=lab
    modules: Sequence[str] = ()
    prelude: str = ""  # lines of bash


def job_name(campaign: str, ledger: str, results: Path) -> str:
    """The name of the pilots in Slurm: one for each campaign, ledger and results folder."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", campaign)[:40]
    key = f"{campaign}\n{ledger}\n{results.resolve()}"
    return f"bf-{plain}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def time_limit_s(text: str) -> int:
    """The seconds of a time limit as sbatch reads it: minutes, minutes:seconds, hours:min:s,
    days-hours, days-hours:min or days-hours:min:s. Raises ValueError."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    days, *parts = match.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    if total <= 0:
        raise ValueError(text)
    return total


def batch_script(spec: PilotSpec, template: str) -> str:
    """The script that sbatch takes. Raises BenchfleetError for a template that cannot work."""
    limit = time_limit_s(spec.time)
    values = {
        "sbatch": "\n".join(f"#SBATCH {option}" for option in _options(spec, limit)),
        "prelude": "\n".join(_prelude(spec)),
        "folder": shlex.quote(str(spec.folder)),
        "seconds": str(limit),
        "command": shlex.join(spec.command),
    }
    placeholders = set(_PLACEHOLDER.findall(template))
    if unknown := placeholders - values.keys():
        choices = ", ".join(f"{{{{{name}}}}}" for name in values)
        raise BenchfleetError(
            f"unknown placeholder {{{{{sorted(unknown)[0]}}}}} in the template: use {choices}"
        )
    if missing := {"sbatch", "command"} - placeholders:
        raise BenchfleetError(
            f"the template has no {{{{{sorted(missing)[0]}}}}}; without it no pilot can work"
        )
    if not template.startswith("#!"):
        raise BenchfleetError("the template must begin with #!, such as #!/bin/bash -l")
    for line in template.splitlines():
        if line.startswith("#SBATCH"):
            _refuse_own(line.removeprefix("#SBATCH"))
    return _PLACEHOLDER.sub(lambda one: values[one[1]], template)


def _options(spec: PilotSpec, limit: int) -> list[str]:
    options = [
        f"--job-name={spec.name}",
        f"--time={spec.time}",
        f"--output={shlex.quote(f'{spec.logs}/%A_%a.log')}",
        "--open-mode=append",  # after a requeue it goes on in the same log
        "--requeue",
        f"--signal=B:USR1@{min(_WARNING_S, limit // 4)}",  # B: to the worker alone, not its slots
    ]
    if spec.partition:
        options.append(f"--partition={spec.partition}")
    if spec.gres:
        options.append(f"--gres={spec.gres}")
    options += spec.options
    for option in options:
        if "\n" in option or not option.startswith("-"):
            raise BenchfleetError(f"{option!r} is not an option of sbatch: write --account=NAME")
    for option in spec.options:
        _refuse_own(option)
    return options


def _refuse_own(line: str) -> None:
    """Raise BenchfleetError for options of sbatch that `submit` sets itself. sbatch takes long ones
    shortened, too, and several on a line."""
    for word in line.split():
        name = word.partition("=")[0]
        for full_name, (short, reason) in _OWN.items():
            shortened = len(name) > len("--x") and full_name.startswith(name)
            if shortened or (word.startswith(short) and not word.startswith("--")):
                raise BenchfleetError(
                    f"{word} is set by submit ({reason}); drop that option of sbatch"
                )


def _prelude(spec: PilotSpec) -> list[str]:
    lines = [f"module load {shlex.join(spec.modules)} || exit 1"] if spec.modules else []
    return [*lines, spec.prelude.rstrip("\n")] if spec.prelude else lines


def in_container(
    command: Sequence[str], image: str, *, folder: Path, options: Sequence[str]
) -> list[str]:
    """The command in a container of apptainer, which sees this folder too; as it is without an
    image."""
    if not image:
        return list(command)
    return ["apptainer", "exec", "--nv", "--bind", str(folder), *options, image, *command]
