"""First in, first out."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.cell import Cell
from benchfleet.policies.base import Preference, Work


class Fifo:
    """The order of the campaign file, whatever it costs in loads."""

    def rank(self, cell: Cell, expected: float | None) -> float:
        return 0.0

    def preference(self, loaded: str, works: Sequence[Work]) -> Preference | None:
        return Preference()
