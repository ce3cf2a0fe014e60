"""The matrix: rows of models, unfolded to benchmarks, by columns of configs, or the other way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.tiles import Tile, tile_id
from benchfleet.dashboard.views.filters import Filters
from benchfleet.dashboard.views.running import running_rows
from benchfleet.domain.state import FINAL_STATES

MAX_TILES = 1_500
MAX_UNFOLDED_TILES = 300  # of a matrix that is shown unfolded at first
_SHADES = 9  # of the one-hue scale
_WORST_FIRST = ("failed", "partial", "running", "retrying", "pending", "cancelled", "skipped")
LETTERS: Mapping[str, str] = {
    "pending": "·",
    "retrying": "↻",
    "running": "▶",
    "success": "✓",
    "partial": "◐",
    "failed": "✗",
    "cancelled": "–",
    "skipped": "/",
}


@dataclass(frozen=True, kw_only=True)
class MatrixTile:
    """Some cells added up: one square of the matrix."""

    total: int
    done: int
    failed: int
    worst: str  # the state that needs most attention
    mean: float | None  # of several benchmarks: see `_whole_means`
    shade: int  # 0 to 8 by the mean; -1 without one
    cell: str  # the id of its only cell; "" where it has several
    samples: int  # of its only cell
    id: str  # what orders call it

    @property
    def complete(self) -> bool:
        return self.done == self.total


@dataclass(frozen=True, kw_only=True)
class MatrixRow:
    """A model, or a benchmark of an unfolded one; a config where the axes are swapped."""

    name: str
    head: str  # the model, or the config
    label: str  # "" for a whole model
    unfolded: bool
    tiles: Sequence[MatrixTile | None]  # None where the matrix has no such cells


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The rows and columns that are shown."""

    row_axis: str  # model, or config where the axes are swapped
    column_axis: str
    columns: Sequence[str]
    rows: Sequence[MatrixRow]
    scale: tuple[float, float]  # the scores of the palest and the darkest colour
    left_out: int  # tiles beyond the limit
    cells: int  # of the tiles that the filters leave
    axes: Mapping[str, Sequence[str]]  # the names that each filter can have


def matrix(
    model: ReadModel, filters: Filters, unfolded: Iterable[str], *, swapped: bool = False
) -> Matrix:
    """The matrix as it is now."""
    opened = set(unfolded)
    row_of, column_of = attrgetter("model"), attrgetter("config")
    if swapped:
        row_of, column_of = column_of, row_of
    with model.lock:
        fits = not opened and len(model.tiles) + len(model.pairs) <= MAX_UNFOLDED_TILES
        is_narrowed = filters.benchmark or filters.subset or filters.state or filters.is_of_cells
        now = running_rows(model) if filters.is_of_cells else {}
        source = model.tiles if fits or is_narrowed else model.pairs
        tiles = _matching(source.values(), filters, now)
        if opened and source is model.pairs:
            parts = [tile for tile in model.tiles.values() if row_of(tile) in opened]
            parts = _matching(parts, filters, now)
        else:
            parts = tiles
        columns = list(dict.fromkeys(column_of(tile) for tile in tiles))
        single = tiles if source is model.tiles else _matching(model.tiles.values(), filters, now)
        mean_of = _pooling(model.tiles.values())
        means = _whole_means(single, row_of, column_of, mean_of)
        known_means = [(part, mean) for part in parts if (mean := mean_of(part)) is not None]
        scores = [mean for part, mean in known_means if not part.is_speed]
        speeds = [mean for part, mean in known_means if part.is_speed]
        spread = _spread([*means.values(), *(scores or speeds)])
        rows = []
        for name, some in _grouped(tiles, row_of).items():
            at = _grouped(some, column_of)
            unfold = name in opened or fits
            totals = [
                _tile(at[one], means.get((name, one)), spread) if one in at else None
                for one in columns
            ]
            rows.append(MatrixRow(name=name, head=name, label="", unfolded=unfold, tiles=totals))
            if unfold:
                own = [part for part in parts if row_of(part) == name]
                for label, labelled in _grouped(own, attrgetter("label")).items():
                    at = _grouped(labelled, column_of)
                    each = [
                        _tile(at[one], mean_of(at[one][0]), spread, label) if one in at else None
                        for one in columns
                    ]
                    rows.append(
                        MatrixRow(name=label, head=name, label=label, unfolded=False, tiles=each)
                    )
        axes = dict(model.axes)
        cells = sum(sum(tile.states.values()) for tile in tiles)
    most = max(1, MAX_TILES // max(1, len(columns)))
    return Matrix(
        row_axis="config" if swapped else "model",
        column_axis="model" if swapped else "config",
        columns=columns,
        rows=rows[:most],
        scale=spread,
        left_out=max(0, len(rows) - most) * len(columns),
        cells=cells,
        axes=axes,
    )


def _matching(tiles: Iterable[Tile], filters: Filters, now: Mapping[int, Row]) -> list[Tile]:
    """The tiles with these names, in which a cell matches the other filters. `now` has the rows of
    running cells."""
    tests = filters.tests() if filters.is_of_cells else ()

    def is_left(row: Row) -> bool:
        current = now.get(row.index, row)
        return all(test(current) for test in tests)

    return [
        tile
        for tile in tiles
        if filters.matches_tile(tile)
        and (not filters.state or tile.states.get(filters.state))
        and (not tests or any(map(is_left, tile.rows)))
    ]


def _grouped(tiles: Iterable[Tile], key: Callable[[Tile], str]) -> dict[str, list[Tile]]:
    groups: dict[str, list[Tile]] = {}
    for tile in tiles:
        groups.setdefault(key(tile), []).append(tile)
    return groups


def _tile(
    tiles: Sequence[Tile], mean: float | None, spread: tuple[float, float], label: str = ""
) -> MatrixTile:
    states: dict[str, int] = {}
    for tile in tiles:
        for state, count in tile.states.items():
            states[state] = states.get(state, 0) + count
    low, high = spread
    only = tiles[0].rows if len(tiles) == 1 else ()
    return MatrixTile(
        total=sum(states.values()),
        done=sum(states.get(state, 0) for state in FINAL_STATES),
        failed=states.get("failed", 0) + states.get("partial", 0),
        worst=next((state for state in _WORST_FIRST if states.get(state)), "success"),
        mean=mean,
        shade=-1 if mean is None else _shade(mean, low, high),
        cell=only[0].id if len(only) == 1 else "",
        samples=only[0].samples if len(only) == 1 else 0,
        id=tile_id(tiles[0].model, tiles[0].config, label),
    )


def _pooling(tiles: Iterable[Tile]) -> Callable[[Tile], float | None]:
    """What takes the mean of a tile's repeats as reports do: over their samples, or over their
    headlines where one of the model × benchmark, of any config, is no mean of its samples."""
    by_headline = {(tile.model, tile.label) for tile in tiles if tile.scores.headlines}

    def mean_of(tile: Tile) -> float | None:
        return tile.scores.mean(by_sample=(tile.model, tile.label) not in by_headline)

    return mean_of


def _whole_means(
    tiles: Iterable[Tile],
    row_of: Callable[[Tile], str],
    column_of: Callable[[Tile], str],
    mean_of: Callable[[Tile], float | None],
) -> dict[tuple[str, str], float]:
    """What a row of several benchmarks shows in each column: the mean of its means, over the
    benchmarks of which every column with a result has one, so that the columns can be compared.
    Speeds, and scores outside 0 to 1, have scales of their own and count only alone."""
    rows: dict[str, dict[str, dict[str, float]]] = {}  # by label and column
    own_scale: set[tuple[str, str]] = set()  # row and label
    for tile in tiles:
        if (mean := mean_of(tile)) is not None:
            row = row_of(tile)
            rows.setdefault(row, {}).setdefault(tile.label, {})[column_of(tile)] = mean
            if tile.is_speed or not 0 <= mean <= 1:
                own_scale.add((row, tile.label))
    means = {}
    for row, labels in rows.items():
        columns = {column for some in labels.values() for column in some}
        shared = [
            some
            for label, some in labels.items()
            if len(labels) == 1 or (some.keys() == columns and (row, label) not in own_scale)
        ]
        for column in columns if shared else ():
            means[row, column] = sum(some[column] for some in shared) / len(shared)
    return means


def _spread(means: Sequence[float]) -> tuple[float, float]:
    """The range of the colours: 0 to 1 for scores within it, else that of the scores."""
    low, high = min(means, default=0.0), max(means, default=1.0)
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def _shade(mean: float, low: float, high: float) -> int:
    share = (mean - low) / (high - low) if high > low else 1.0
    return min(_SHADES - 1, max(0, int(share * _SHADES)))
