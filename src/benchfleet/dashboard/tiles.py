"""The cells of one place in the matrix, added up."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from benchfleet.dashboard.rows import Row


@dataclass(slots=True)
class Tile:
    """The cells of one model × config × benchmark and subset, added up.

    One of a whole model × config adds up the means of its benchmarks, not the scores of its cells:
    a benchmark with more repeats counts no more than another.
    """

    model: str
    config: str
    label: str
    benchmark: str
    subset: str
    states: dict[str, int] = field(default_factory=dict)
    scored: int = 0
    score_sum: float = 0.0
    rows: list[Row] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        return self.score_sum / self.scored if self.scored else None


def count(row: Row, by: int, tile: Tile, whole: Tile) -> None:
    """Add a row to its tile and to that of its model × config (1), or take it away (-1)."""
    for one in (tile, whole):
        one.states[row.state] = one.states.get(row.state, 0) + by
    if row.state != "success" or row.score is None:
        return
    if (mean := tile.mean) is not None:
        whole.scored -= 1
        whole.score_sum -= mean
    tile.scored += by
    tile.score_sum += by * row.score
    if (mean := tile.mean) is not None:
        whole.scored += 1
        whole.score_sum += mean


def tile_id(model: str, config: str, label: str) -> str:
    """What orders call a place in the matrix; the label is "" for all benchmarks."""
    key = "\0".join((model, config, label))
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
