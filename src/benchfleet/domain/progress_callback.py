"""Progress reports of long operations."""

from __future__ import annotations

from collections.abc import Callable

# Receives how many are done, of how many; of 0 if the total is unknown.
ProgressCallback = Callable[[int, int], None]


def ignore_progress(done: int, of: int) -> None:
    """Report nothing."""
