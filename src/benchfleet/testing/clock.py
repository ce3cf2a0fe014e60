"""A clock that only a test advances."""

from __future__ import annotations


class FakeClock:
    """Returns seconds since the epoch when called."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass; a negative number sets the clock back."""
        self.now += seconds
