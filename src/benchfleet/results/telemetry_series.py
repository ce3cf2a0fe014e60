"""The readings of an attempt, kept beside its result where they tell more than their summary."""

from __future__ import annotations

import json
from pathlib import Path

from benchfleet.domain.telemetry import Reading

MIN_READINGS = 10  # readings; of a shorter cell the summary tells all
_INTERVAL_DIVISOR = 300  # the next is kept when this part of the time so far went by


class Series:
    """Appends readings to a file of JSON lines, ever more seldom: a cell of an hour keeps 1,050 of
    3,600, one of a day 2,000 of 86,400. The summary knows them all."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waiting: list[Reading] = []
        self._next = 0.0  # seconds
        self._begun = False

    def add(self, reading: Reading) -> None:
        """Keep it, or not. Raises OSError."""
        if reading.at < self._next:
            return
        self._next = reading.at + reading.at / _INTERVAL_DIVISOR
        self._waiting.append(reading)
        if self._begun or len(self._waiting) >= MIN_READINGS:
            self._begun = True
            encoded = (json.dumps(one.to_dict(), separators=(",", ":")) for one in self._waiting)
            lines, self._waiting = "".join(f"{line}\n" for line in encoded), []
            with open(self._file, "a", encoding="utf-8") as file:
                file.write(lines)
