"""Asking SCIP, CP-SAT, or for a bound by patterns, in a process of its own.

So it works while the search does, can be ended at any time, and what ends it (CP-SAT has been seen
to abort on a model without a plan) ends nothing else.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import BinaryIO, Literal

from .problem import Placed, Problem

How = Literal["cut", "apart", "patterns"]  # by SCIP, CP-SAT, or patterns
_PROGRAM = [sys.executable, "-m", "benchfleet.machines.assign.apart"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be looked at, how, and for how long."""

    problem: Problem
    known: float  # seconds of a plan; one is looked for that ends sooner
    bound: float  # seconds that no plan can beat
    how: How
    seed: int
    limit: float  # in the solver's own time
    seconds: float  # by the clock, at most


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What it found."""

    bound: float  # seconds
    cells: Placed = field(default_factory=dict)  # none: nothing that ends sooner
    apart: frozenset[str] = frozenset()  # machines whose gangs were told apart


class Solving:
    """The process, seen from whoever asks; it is started by the first question."""

    def __init__(self, left: Callable[[], float]) -> None:
        """`left` are the seconds until nobody waits for an answer any more."""
        self._left = left
        self.ended = False  # by itself
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[Answer | float | None] = queue.SimpleQueue()

    def __enter__(self) -> Solving:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                with contextlib.suppress(OSError):  # a question that it did not read
                    self._process.stdin.close()
            self._reader.join()

    def ask(self, asked: Asked) -> None:
        """Begin to look at it."""
        if self._process is None:
            self._process = subprocess.Popen(
                _PROGRAM,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
            self._reader.start()
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(OSError):  # it has ended, as the answer will say
            pickle.dump(asked, self._process.stdin)
            self._process.stdin.flush()

    def answer(self) -> Answer:
        """What it found. If it ended, or time is over: the best bound that it told before."""
        bound = 0.0
        while True:
            try:
                told = self._answers.get(timeout=max(0.0, self._left()))
            except queue.Empty:
                return Answer(bound=bound)
            if isinstance(told, float):
                bound = max(bound, told)
            elif told is None:
                self._answers.put(None)
                self.ended = True
                return Answer(bound=bound)
            else:
                return told

    def _read(self, stream: BinaryIO) -> None:
        with stream, contextlib.suppress(EOFError, pickle.UnpicklingError, OSError):
            while True:
                self._answers.put(pickle.load(stream))  # noqa: S301 - of our own process
        self._answers.put(None)
