"""Slurm's own commands: sbatch, squeue, scancel and srun, and what they answer."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchfleet.errors import BenchfleetError

TIMEOUT_S = 120.0  # seconds that a command may take; Slurm's own retries end before that
_FORMAT = "%i|%T|%L|%N|%r"  # job, state, time left, nodes, reason
_AWAY = re.compile(
    r"unable to contact|timed out|connection (refused|reset|closed)|communication|"
    r"unexpected message|not responding|backup controller|zero bytes|temporarily",
    re.IGNORECASE,
)
Run = Callable[[Sequence[str], str], "subprocess.CompletedProcess[str]"]


class SlurmError(BenchfleetError):
    """Slurm refuses what was asked."""


class SlurmAway(SlurmError):
    """Slurm's controller does not answer now: what runs goes on, and nobody can tell."""

    retryable = True


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """A job that runs a worker, as Slurm tells it."""

    job: str  # 12_3: the task of an array, as every command of Slurm names it
    state: str  # PENDING, RUNNING, COMPLETING, SUSPENDED, …
    time_left: str  # as Slurm prints it; "" before it runs
    node: str  # "" before it runs
    reason: str  # why it waits

    @property
    def queued(self) -> bool:
        """Whether it waits for a node; after a requeue again."""
        return self.state == "PENDING"

    @property
    def ending(self) -> bool:
        """Whether it takes no more cells, as after scancel."""
        return self.state == "COMPLETING"


def pilot_counts(pilots: Sequence[Pilot], submitted: int = 0) -> tuple[int, int, int]:
    """How many wait, with those `submitted` since; how many run; how many end now."""
    queued, ending = sum(one.queued for one in pilots), sum(one.ending for one in pilots)
    return queued + submitted, len(pilots) - queued - ending, ending


def run_command(words: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    """Run a command with `text` as its input. Raises OSError, and TimeoutExpired."""
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=TIMEOUT_S)


class Slurm:
    """The cluster that Slurm's commands on the PATH lead to."""

    def __init__(self, run: Run = run_command) -> None:
        self._run = run
        self._user = pwd.getpwuid(os.getuid()).pw_name

    def pilots(self, name: str) -> list[Pilot]:
        """The user's jobs of this name that wait or run. Raises SlurmError, SlurmAway."""
        chosen = [f"--name={name}", f"--user={self._user}"]
        output = self._ask(["squeue", "--noheader", "--array", f"--format={_FORMAT}", *chosen])
        pilots = []
        for line in output.splitlines():
            fields = [field.strip() for field in line.split("|", 4)]
            if len(fields) == 5:
                job, state, time_left, node, reason = fields
                queued = state == "PENDING"
                pilots.append(
                    Pilot(
                        job=job,
                        state=state,
                        time_left="" if queued else time_left,
                        node="" if queued else node,
                        reason=reason if reason != "None" else "",
                    )
                )
        return pilots

    def submit(self, script: str, count: int) -> str:
        """Submit an array of so many jobs; its number. Raises SlurmError, and SlurmAway where
        nobody can tell whether they were submitted."""
        output = self._ask(["sbatch", "--parsable", f"--array=0-{count - 1}"], script)
        lines = output.split()
        number = re.match(r"\d+", lines[-1]) if lines else None
        if number is None:
            raise SlurmError(f"sbatch printed no job number, but {output.strip()!r}")
        return number[0]

    def cancel(self, name: str, *, queued_only: bool) -> None:
        """Cancel the user's jobs of this name. Raises SlurmError, SlurmAway."""
        chosen = [f"--name={name}", f"--user={self._user}"]
        self._ask(["scancel", *chosen, *(["--state=PENDING"] if queued_only else [])])

    def _ask(self, words: Sequence[str], text: str = "") -> str:
        try:
            done = self._run(words, text)
        except FileNotFoundError as error:
            raise SlurmError(
                f"there is no command {words[0]} here; run this on a login node of the cluster"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise SlurmAway(f"{words[0]} has not answered for {error.timeout:g} s") from error
        if done.returncode == 0:
            return done.stdout
        lines = (done.stderr or done.stdout).splitlines()
        plain = [line.removeprefix(f"{words[0]}: ").removeprefix("error: ") for line in lines]
        message = "; ".join(filter(None, plain)) or f"exit code {done.returncode}"
        kind = SlurmAway if _AWAY.search(message) else SlurmError
        raise kind(f"{words[0]}: {message}")
