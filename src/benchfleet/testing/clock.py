"""A clock that stands still until it is moved."""

from __future__ import annotations


class FakeClock:
    """Seconds since the epoch, as a test wants them: call it to read it."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass; a negative number sets the clock back."""
        self.now += seconds
