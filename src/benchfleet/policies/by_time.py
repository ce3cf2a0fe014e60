"""The shortest or the longest cells first, whatever their model; its load counts."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.cell import Cell
from benchfleet.policies.base import Preference, Work

_TIE_BREAK_S = 1e-3  # seconds: among equals the model in memory goes first


class _ByTime:
    def preference(self, loaded: str, works: Sequence[Work]) -> Preference | None:
        models = {
            work.load_key: work.load + _TIE_BREAK_S for work in works if work.load_key != loaded
        }
        return Preference(models={**models, loaded: 0.0} if loaded else models, others=_TIE_BREAK_S)


class ShortestFirst(_ByTime):
    """Many results soon."""

    def rank(self, cell: Cell, expected: float | None) -> float:
        return expected or 0.0


class LongestFirst(_ByTime):
    """The whole done soon: what is left for the end is short."""

    def rank(self, cell: Cell, expected: float | None) -> float:
        return -(expected or 0.0)
