"""Runs of one campaign as a user starts them, and every process that comes of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil


class Runners:
    """Runs of one campaign as a user starts them, and the processes that are theirs."""

    def __init__(self, words: list[str], environment: dict[str, str], logs: Path) -> None:
        self._words, self._logs = words, logs
        self._mark = f"BENCHFLEET_TORMENT={os.urandom(8).hex()}"
        name, _, value = self._mark.partition("=")
        self._environment = {**environment, name: value}
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        """One more run of the campaign, which prints into a file of its own."""
        with open(self._logs / f"runner-{len(self.started) + 1}.log", "wb") as log:
            run = subprocess.Popen(
                self._words,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(run)
        return run

    def alive(self) -> list[subprocess.Popen[bytes]]:
        return [run for run in self.started if run.poll() is None]

    def number(self, run: subprocess.Popen[bytes]) -> str:
        return f"runner {self.started.index(run) + 1}"

    def processes(self) -> list[psutil.Process]:
        """Every living process that these runs started, whatever its parent is now."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                marks = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
                if self._mark.encode() in marks:
                    found.append(process)
        return found

    def supervisors(self) -> list[psutil.Process]:
        return [p for p in self._children(self.alive()) if "launch.py" in _words(p)]

    def slots(self) -> list[psutil.Process]:
        return [p for p in self._below(self.supervisors()) if "benchfleet.slot.main" in _words(p)]

    def strays(self) -> list[psutil.Process]:
        """What slots left behind in a session of its own."""
        return [p for p in self._below(self.slots()) if _session(p) == p.pid]

    def tree(self, run: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """A run and all that it started, itself first."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(run.pid)
            return [process, *process.children(recursive=True)]
        return []

    def connections(self) -> list[psutil.Process]:
        return [p for p in self.processes() if _words(p).split(" ")[0].endswith("ssh")]

    def _children(self, runs: list[subprocess.Popen[bytes]]) -> Iterator[psutil.Process]:
        for run in runs:
            with contextlib.suppress(psutil.Error):
                yield from psutil.Process(run.pid).children()

    def _below(self, parents: list[psutil.Process]) -> Iterator[psutil.Process]:
        for parent in parents:
            with contextlib.suppress(psutil.Error):
                yield from parent.children()

    def end(self) -> None:
        """Kill all that is left of them."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        for run in self.started:
            run.wait()


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _session(process: psutil.Process) -> int:
    try:
        return os.getsid(process.pid)
    except OSError:
        return 0
