"""How far a verb is, for somebody who waits at a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from benchfleet.cli.text.terminal import can_redraw

_REDRAW_INTERVAL_S = 0.2  # seconds; sooner nobody would see it


@contextlib.contextmanager
def progress_line(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback (done, total) that draws ``{what}: 3 of 64`` on stderr until the block ends;
    a total of 0 means unknown. Only a terminal shows it."""
    shown_at = 0.0

    def show(done: int, of: int) -> None:
        nonlocal shown_at
        if can_redraw(sys.stderr) and (
            not shown_at or time.monotonic() > shown_at + _REDRAW_INTERVAL_S
        ):
            shown_at = time.monotonic()
            many = f"{done} of {of}" if of else str(done)
            print(f"\r\x1b[K{what}: {many}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if shown_at:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
