"""Telling whoever waits how far something is that takes long."""

from __future__ import annotations

from collections.abc import Callable

# Is told how many are done, of how many, as it goes on; of 0 where that is not known before.
ProgressCallback = Callable[[int, int], None]


def ignore_progress(done: int, of: int) -> None:
    """Nobody waits for it."""
