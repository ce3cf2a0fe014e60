"""Keep every model where it is: the default."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.cell import Cell
from benchfleet.policies.base import Preference, Work

_BETWEEN_MODELS_S = 1e9  # seconds between two models, so that no rank outweighs the order of models


class WarmFirst:
    """A slot keeps its model while cells of it wait. Else it takes the model with the most work
    left for each slot that serves it, unless those slots end that work before it is loaded."""

    def rank(self, cell: Cell, expected: float | None) -> float:
        """The longest first, so that none is left at the end."""
        return -(expected or 0.0)

    def preference(self, loaded: str, works: Sequence[Work]) -> Preference | None:
        warm = [work for work in works if work.load_key == loaded]
        cold = [work for work in works if work.load_key != loaded and _is_worth_loading(work)]
        cold.sort(key=lambda work: (work.serving > 0, -work.seconds / max(1, work.serving)))
        order = dict.fromkeys(work.load_key for work in (*warm, *cold))
        models = {load_key: _BETWEEN_MODELS_S * position for position, load_key in enumerate(order)}
        return Preference(models=models, others=None) if models else None


def _is_worth_loading(work: Work) -> bool:
    """Whether another slot has the model loaded before those that have it begin the last cell."""
    if not work.serving or not work.has_times or not work.cells or work.occupied:
        return True
    mean = work.seconds / work.cells
    last_begins = mean * ((work.cells - 1) / work.serving + 1 / (work.serving + 1))
    return work.load < last_begins
