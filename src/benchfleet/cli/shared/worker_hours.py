"""How long a worker works: the options, and waiting for a ledger that does not exist yet."""

from __future__ import annotations

import argparse
import math
import time
from typing import TextIO

from benchfleet.cli.shared import checkpoint_watch, option_types
from benchfleet.cli.text.output import say
from benchfleet.domain.cell import Cell
from benchfleet.errors import LedgerAbsent
from benchfleet.runner.worker_options import END_RESERVE_S
from benchfleet.study import Study

_POLL_S = 5.0  # between two looks for a ledger
_ORDERLY = (0, 1, 130)  # exit codes of a run that ended in good order


def configure(parser: argparse.ArgumentParser) -> None:
    """When a worker ends."""
    parser.add_argument(
        "--forever", action="store_true", help="keep waiting for new cells when none is left"
    )
    configure_idle_exit(parser)
    parser.add_argument(
        "--max-hours",
        metavar="H",
        type=option_types.number(24 * 365, "time {}: use hours, such as 3.5"),
        help="stop after this time; start no cell that is expected to take longer",
    )
    parser.add_argument(
        "--ends-at",
        metavar="EPOCH",
        type=option_types.number(2**40, "time {}: use seconds since 1970, as `date +%s` prints"),
        help="in a batch job, which is killed then: end a minute before, start no cell that is "
        "expected to take longer, release cells within 20 s of a signal, exit with 0",
    )


def configure_idle_exit(parser: argparse.ArgumentParser) -> None:
    """When a run that waits for cells ends by itself."""
    parser.add_argument(
        "--idle-exit",
        metavar="S",
        type=option_types.number(86_400 * 365, "number of seconds {}: use 1 or more"),
        help="wait for new cells, and end after S seconds in which no cell ran here",
    )


def stays(arguments: argparse.Namespace) -> bool:
    """Whether it waits for cells although none is left."""
    return arguments.forever or arguments.idle_exit is not None


def seconds(arguments: argparse.Namespace) -> float | None:
    """How long it may work; None without a limit."""
    limits = []
    if arguments.max_hours:
        limits.append(3600 * arguments.max_hours)
    if arguments.ends_at:
        limits.append(arguments.ends_at - time.time() - END_RESERVE_S)
    return min(limits, default=None)


def opened(arguments: argparse.Namespace, stream: TextIO) -> tuple[Study, list[Cell]]:
    """The campaign and its cells. A worker that stays waits for a ledger that does not exist yet,
    and says so on `stream`.

    Raises LedgerAbsent.
    """
    is_reported = False
    limits = (arguments.idle_exit, seconds(arguments))
    until = time.monotonic() + min(
        (limit for limit in limits if limit is not None), default=math.inf
    )
    while True:
        try:
            return checkpoint_watch.opened(arguments)
        except LedgerAbsent as absent:
            if not stays(arguments) or (is_reported and time.monotonic() >= until):
                raise
            if not is_reported:
                say(f"waiting: {absent}", to=stream, flush=True)
            is_reported = True
        time.sleep(max(0.0, min(_POLL_S, until - time.monotonic())))


def exit_code(arguments: argparse.Namespace, code: int) -> int:
    """The exit code: a batch job succeeds if it ended in good order, whatever became of cells."""
    return 0 if arguments.ends_at and code in _ORDERLY else code
