"""How old what is shown is."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(slots=True)
class Freshness:
    """How old what is shown is, and why it is not newer."""

    read_at: float = 0.0  # when the ledger was last read: seconds since the epoch, our clock
    store_age: float = 0.0  # seconds: how old that was then, for a git ledger
    error: str = ""  # why the ledger cannot be read; "" while it can
    failing_since: float = 0.0  # seconds since the epoch

    @property
    def age(self) -> float:
        """Seconds since what is shown was true."""
        return max(0.0, time.time() - self.read_at) + self.store_age if self.read_at else 0.0

    @property
    def unknown_seconds(self) -> float:
        """Seconds for which signs of life could not be seen, since the ledger cannot be read."""
        return max(0.0, time.time() - self.read_at) if self.error and self.read_at else 0.0
