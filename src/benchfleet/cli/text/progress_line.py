"""How far a verb is, for somebody who waits at a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from benchfleet.cli.text.terminal import can_redraw

_EVERY = 0.2  # seconds; sooner nobody would see it


@contextlib.contextmanager
def progress_line(what: str) -> Iterator[Callable[[int, int], None]]:
    """What is to be told how many are done, of how many: ``{what}: 3 of 64`` on standard error, or
    ``{what}: 3`` where that is not known, and gone when the block ends. Nothing is shown elsewhere
    than on a terminal."""
    told = 0.0

    def tell(done: int, of: int) -> None:
        nonlocal told
        if can_redraw(sys.stderr) and (not told or time.monotonic() > told + _EVERY):
            told = time.monotonic()
            many = f"{done} of {of}" if of else str(done)
            print(f"\r\x1b[K{what}: {many}", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if told:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
