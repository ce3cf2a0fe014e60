"""The cells of one place in the matrix, added up."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from benchfleet.dashboard.rows import Row


@dataclass(slots=True)
class Tile:
    """The cells of one model × config × benchmark and subset, added up."""

    model: str
    config: str
    label: str
    benchmark: str
    subset: str
    states: dict[str, int] = field(default_factory=dict)
    scored: int = 0
    score_sum: float = 0.0
    rows: list[Row] = field(default_factory=list)

    def count(self, state: str, by: int) -> None:
        self.states[state] = self.states.get(state, 0) + by


def tile_id(model: str, config: str, label: str) -> str:
    """What orders call a place in the matrix; the label is "" for all benchmarks."""
    key = "\0".join((model, config, label))
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
