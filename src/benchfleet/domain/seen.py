"""Telling whoever waits how far something is that takes long."""

from __future__ import annotations

from collections.abc import Callable

Seen = Callable[[int, int], None]  # is told how many are done, of how many, as it goes on


def unseen(done: int, of: int) -> None:
    """Nobody waits for it."""
