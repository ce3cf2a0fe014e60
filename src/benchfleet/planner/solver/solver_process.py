"""SCIP in a process of its own: it works beside the search, and is killed when nobody waits.

SCIP holds back Ctrl-C while it runs, and whatever ends the process ends nothing else.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

from benchfleet.environment import child_environment

from .mip_relaxation import Relaxation, relax
from .problem import Problem

_PROGRAM = [sys.executable, "-m", "benchfleet.planner.solver.solver_process"]


@contextmanager
def solver_process(
    problem: Problem, **options: Any
) -> Iterator[Callable[[float], Relaxation | None]]:
    """Start to solve the relaxation, with the options of `relax`. The function that this yields
    waits so many seconds for the result; None if there is none by then or the process died."""
    with TemporaryFile() as question:
        pickle.dump((problem, options), question)
        question.seek(0)
        process = subprocess.Popen(
            _PROGRAM,
            stdin=question,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
        )

    def result(seconds: float) -> Relaxation | None:
        try:
            answer, _ = process.communicate(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None
        relaxation: Relaxation | None = pickle.loads(answer) if answer else None  # noqa: S301 - our own
        return relaxation

    with process:
        try:
            yield result
        finally:
            process.kill()


def main() -> None:
    """Solve what standard input asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent kills this process
    problem, options = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own parent
    pickle.dump(relax(problem, **options), sys.stdout.buffer)


if __name__ == "__main__":
    main()
