"""The cells of one place in the matrix, added up."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from benchfleet.dashboard.rows import Row


@dataclass(slots=True)
class Scores:
    """The scores of repeats, of which some come and go."""

    count: int = 0
    total: float = 0.0
    averaged: int = 0  # samples that these scores are means of
    averaged_total: float = 0.0  # of the scores of these samples
    headlines: int = 0  # scores that are no mean of samples

    def mean(self, *, by_sample: bool) -> float | None:
        """Their mean: that of all samples together, or of the scores as they are."""
        if by_sample:
            return self.averaged_total / self.averaged if self.averaged else None
        return self.total / self.count if self.count else None

    def add(self, score: float, averaged: int, by: int) -> None:
        """Add a score, the mean of so many samples (1), or take it away (-1)."""
        self.count += by
        self.total += by * score
        self.averaged += by * averaged
        self.averaged_total += by * averaged * score
        self.headlines += by * (not averaged)


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
    scores: Scores = field(default_factory=Scores)
    is_speed: bool = False  # its scores are speeds
    rows: list[Row] = field(default_factory=list)


def count(row: Row, by: int, tile: Tile, whole: Tile) -> None:
    """Add a row to its tile and to that of its model × config (1), or take it away (-1)."""
    for one in (tile, whole):
        one.states[row.state] = one.states.get(row.state, 0) + by
    if row.state == "success" and row.score is not None:
        tile.is_speed = row.is_speed
        tile.scores.add(row.score, row.averaged, by)


def tile_id(model: str, config: str, label: str) -> str:
    """What orders call a place in the matrix; the label is "" for all benchmarks."""
    key = "\0".join((model, config, label))
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
