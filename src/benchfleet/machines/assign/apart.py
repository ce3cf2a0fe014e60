"""``python -m benchfleet.machines.assign.apart``: the process in which SCIP and CP-SAT work,
and where a bound by patterns is found."""

from __future__ import annotations

import contextlib
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from .asking import Answer, Asked
from .cut import cut
from .sat import solved


def answered(asked: Asked, told: Callable[[float], None] = lambda bound: None) -> Answer:
    """The answer; each better bound is told as it comes."""
    if asked.how == "cut":
        return cut(asked)
    if asked.how == "apart":
        return solved(asked, told)
    from .covering import covered

    return covered(asked, told)


def main() -> None:
    """Answer what standard input asks, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked ends this
    import ortools.math_opt.python.mathopt  # noqa: F401 - while the question is on its way

    out, lock = sys.stdout.buffer, threading.Lock()

    def send(value: Any) -> None:
        with lock:
            pickle.dump(value, out)
            out.flush()

    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            send(answered(pickle.load(sys.stdin.buffer), send))  # noqa: S301 - of our own parent


if __name__ == "__main__":
    main()
