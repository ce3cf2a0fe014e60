"""When the slots of a runner that are idle claim: together, where that costs them little."""

from __future__ import annotations

BURST = 5e-3  # seconds for which what arrives is taken in before anything is claimed
REST = 0.1  # seconds, at most, between two claims while others run
_PART = 0.25  # of what the last claims took
_LITTLE = 1e-3  # seconds: to wait less is not worth it


class Pace:
    """Says when to claim after something may have left room for a cell.

    All that came is taken in first. Where claims take long, as on a ledger far away, a part of that
    time is waited after them while other slots run: those that end meanwhile claim together, and
    stay together. Times are the inbox's.
    """

    def __init__(self) -> None:
        self._by = 0.0  # when, whatever still comes; 0: nobody asked
        self._from = 0.0  # when, at the earliest

    @property
    def asked(self) -> bool:
        """Whether there may be room for a cell."""
        return bool(self._by)

    def ask(self, now: float) -> None:
        """There may be."""
        self._by = self._by or max(now, self._from) + BURST

    def wait(self, now: float, *, others: bool) -> float:
        """Seconds for which something may still come, from `others` that run, if any do."""
        return max(0.0, self._from - now) if others else 0.0

    def is_due(self, now: float, *, quiet: bool) -> bool:
        """Whether it is time; `quiet` where nothing came while that was waited."""
        return self.asked and (quiet or now >= self._by)

    def claimed(self, began: float, now: float) -> None:
        """It was claimed for all that were idle, from then until now."""
        rest = min(REST, _PART * (now - began))
        self._by, self._from = 0.0, now + rest if rest >= _LITTLE else now
