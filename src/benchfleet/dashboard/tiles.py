"""The cells of one place in the matrix, added up."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from benchfleet.dashboard.rows import Row


@dataclass(slots=True)
class Mean:
    """A mean of which values come and go."""

    count: int = 0
    total: float = 0.0

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None

    def add(self, value: float, by: int) -> None:
        """Add a value (1), or take it away (-1)."""
        self.count += by
        self.total += by * value


@dataclass(slots=True)
class Tile:
    """The cells of one model × config × benchmark and subset, added up; those of a whole model ×
    config without their scores, which are not of one scale."""

    model: str
    config: str
    label: str
    benchmark: str
    subset: str
    states: dict[str, int] = field(default_factory=dict)
    scores: Mean = field(default_factory=Mean)
    is_speed: bool = False  # its scores are speeds
    rows: list[Row] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        return self.scores.value


def count(row: Row, by: int, tile: Tile, whole: Tile) -> None:
    """Add a row to its tile and to that of its model × config (1), or take it away (-1)."""
    for one in (tile, whole):
        one.states[row.state] = one.states.get(row.state, 0) + by
    if row.state == "success" and row.score is not None:
        tile.is_speed = row.is_speed
        tile.scores.add(row.score, by)


def tile_id(model: str, config: str, label: str) -> str:
    """What orders call a place in the matrix; the label is "" for all benchmarks."""
    key = "\0".join((model, config, label))
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
