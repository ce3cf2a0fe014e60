"""A figure's heat maps as Vega-Lite.

Names reach a chart as data and as the domains of its scales, never within an expression. A page may
have a hundred heat maps, each of which Altair takes a tenth of a second to make, so these
definitions are written as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchfleet.reports.figures import Figure

from .base import HIGHER, LOWER, SAME, Chart, common

_SCHEME = "viridis"
_LIGHT_FRACTION = 0.4  # of the scheme: its colours call for black text from there on
_DARK_FRACTION = 0.9  # of the largest difference: its colours call for white text from there on
_ROW_PX = 24  # pixels
_LETTER_PX = 6.2  # pixels of a cell's text
_MAX_COLUMN_PX = 120  # pixels of a column
_SLANTED = {"labelAngle": -40, "labelAlign": "left"}
_MAX_LEVEL_CHARS = 16  # letters of a config whose name is not slanted
_MAX_LEVEL_PX = 560  # pixels of all columns, if their names are not slanted
_MAX_COLUMNS = 20  # configs side by side; more of them become rows
_TOOLTIP_FIELDS = ("score", "samples", "difference", "interval", "density", "speed")


def scores(figure: Figure) -> dict[str, Any]:
    """The heat map of the scores."""
    means = [entry["mean"] for entry in figure.entries if "mean" in entry]
    low, high = min(means), max(means)
    if low == high:
        low, high = low - 0.5, high + 0.5
    scale = {"scheme": _SCHEME, "domain": [low, high]}
    light = f"datum.mean > {low + _LIGHT_FRACTION * (high - low)}"
    return _heat_map(figure, "mean", figure.columns, scale, light)


def differences(figure: Figure) -> dict[str, Any] | None:
    """The heat map of the differences to the baseline, the unsure ones pale; or None."""
    changes = [abs(entry["change"]) for entry in figure.entries if "change" in entry]
    if not changes:
        return None
    reach = max(changes) or 1.0
    colours = [LOWER, SAME, HIGHER]
    scale = {"domain": [-reach, 0, reach], "range": colours, "interpolate": "lab"}
    light = f"abs(datum.change) < {_DARK_FRACTION * reach} || !datum.sure"
    return _heat_map(figure, "change", figure.others, scale, light)


def heat_maps(figure: Figure) -> list[Chart]:
    """Both maps of a figure."""
    score = f"scores from {figure.lowest} to {figure.highest}"
    maps = [("scores", f"{figure.title}: {score}", scores(figure))]
    if changes := differences(figure):
        maps.append(("differences", f"{figure.title}: differences to the baseline", changes))
    return [
        Chart(kind=kind, title=title, about="", spec=spec, rows=figure.entries)
        for kind, title, spec in maps
    ]


def _heat_map(
    figure: Figure, value: str, columns: Sequence[str], scale: Mapping[str, Any], light: str
) -> dict[str, Any]:
    """A value of each entry; `light` says where its colour calls for black text."""
    text = f"{value}_text"
    x, y = "column", "row"
    rows: Sequence[str] = figure.rows
    if len(columns) > max(_MAX_COLUMNS, len(rows)):
        x, y, rows, columns = y, x, columns, rows
    longest_name = max(map(len, columns))
    level = longest_name <= _MAX_LEVEL_CHARS and (
        len(columns) * _column_px(longest_name) <= _MAX_LEVEL_PX
    )
    written = [entry[text] for entry in figure.entries if text in entry]
    longest = max(map(len, [*written, *(columns if level else ())]))
    colour = {"field": value, "type": "quantitative", "legend": None, "scale": scale}
    black_or_white = {"condition": {"test": light, "value": "black"}, "value": "white"}
    label = {"text": {"field": text, "type": "nominal"}}
    cells = f"isValid(datum.{value})"
    without = f"!isValid(datum.{value}) && isValid(datum.{text})"
    layers = [
        _layer(cells, "rect", color=colour),
        _layer(cells, {"type": "text", "fontSize": 11}, color=black_or_white, **label),
        _layer(without, {"type": "rect", "color": "#888888", "opacity": 0.25}),
        _layer(without, {"type": "text", "fontSize": 11, "color": "currentColor"}, **label),
    ]
    if value == "change":
        pale = {"type": "rect", "color": "white", "opacity": 0.6}
        layers.insert(1, _layer(f"{cells} && !datum.sure", pale))
    return {
        **common(),
        "width": {"step": _column_px(longest)},
        "height": {"step": _ROW_PX},
        "encoding": {
            "x": {
                **_axis(x, columns, padding=0.04),
                "axis": {"orient": "top", **({"labelAngle": 0} if level else _SLANTED)},
            },
            "y": _axis(y, rows, padding=0.06),
            "tooltip": [
                _whole_name("row", figure.kind, figure),
                _whole_name("column", "config", figure),
                *({"field": name, "type": "nominal"} for name in _TOOLTIP_FIELDS),
            ],
        },
        "layer": layers,
    }


def _layer(entries: str, mark: str | Mapping[str, Any], **encoding: Any) -> dict[str, Any]:
    """Draws the entries that an expression chooses."""
    return {"transform": [{"filter": entries}], "mark": mark, "encoding": encoding}


def _axis(field: str, names: Sequence[str], *, padding: float) -> dict[str, Any]:
    scale = {"domain": [*names], "paddingInner": padding}
    return {"field": field, "type": "nominal", "title": None, "scale": scale}


def _whole_name(axis: str, title: str, figure: Figure) -> dict[str, str]:
    """What the pointer shows of an axis."""
    name = f"{axis}_name"
    field = name if name in figure.entries[0] else axis
    return {"field": field, "type": "nominal", "title": title}


def _column_px(letters: int) -> int:
    """The width of a column with a text of so many letters."""
    return min(_MAX_COLUMN_PX, round(14 + _LETTER_PX * letters))
