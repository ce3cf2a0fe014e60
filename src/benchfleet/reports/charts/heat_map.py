"""A figure's heat maps as Vega-Lite, made by Altair, and the script that draws them offline.

Names reach a chart as data and as the domains of its scales, never within an expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from benchfleet.reports.figures import Figure

from .base import DATA, HIGHER, LOWER, SAME, Chart, finished

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
    import altair as alt

    means = [entry["mean"] for entry in figure.entries if "mean" in entry]
    low, high = min(means), max(means)
    if low == high:
        low, high = low - 0.5, high + 0.5
    colour = alt.Color("mean:Q", legend=None).scale(scheme=_SCHEME, domain=[low, high])
    light = alt.datum.mean > low + _LIGHT_FRACTION * (high - low)
    return _heat_map(figure, "mean", figure.columns, colour, light)


def differences(figure: Figure) -> dict[str, Any] | None:
    """The heat map of the differences to the baseline, the unsure ones pale; or None."""
    import altair as alt

    changes = [abs(entry["change"]) for entry in figure.entries if "change" in entry]
    if not changes:
        return None
    reach = max(changes) or 1.0
    colour = alt.Color("change:Q", legend=None).scale(
        domain=[-reach, 0, reach], range=[LOWER, SAME, HIGHER], interpolate="lab"
    )
    light = (abs(alt.datum.change) < _DARK_FRACTION * reach) | ~alt.datum.sure
    return _heat_map(figure, "change", figure.others, colour, light)


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


@cache  # making it takes a second
def script(snippet: str) -> str:
    """The snippet with all that it needs to call `vegaEmbed` without a network."""
    import vl_convert

    return str(vl_convert.javascript_bundle(snippet))


def _heat_map(
    figure: Figure, value: str, columns: Sequence[str], colour: Any, light: Any
) -> dict[str, Any]:
    """A value of each entry; `light` says where its colour calls for black text."""
    import altair as alt

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
    base = alt.Chart(alt.NamedData(name=DATA)).encode(
        x=alt.X(f"{x}:N", title=None)
        .scale(domain=list(columns), paddingInner=0.04)
        .axis(orient="top", **({"labelAngle": 0} if level else _SLANTED)),
        y=alt.Y(f"{y}:N", title=None).scale(domain=list(rows), paddingInner=0.06),
        tooltip=[
            alt.Tooltip("row:N", title=figure.kind),
            alt.Tooltip("column:N", title="config"),
            *(alt.Tooltip(f"{name}:N") for name in _TOOLTIP_FIELDS),
        ],
    )
    cells = base.transform_filter(f"isValid(datum.{value})")
    without = base.transform_filter(f"!isValid(datum.{value}) && isValid(datum.{text})")
    layers = [
        cells.mark_rect().encode(color=colour),
        cells.mark_text(fontSize=11).encode(
            text=alt.Text(f"{text}:N"),
            color=alt.when(light).then(alt.value("black")).otherwise(alt.value("white")),
        ),
        without.mark_rect(color="#888888", opacity=0.25),
        without.mark_text(fontSize=11, color="currentColor").encode(text=alt.Text(f"{text}:N")),
    ]
    if value == "change":
        pale = cells.transform_filter("!datum.sure").mark_rect(color="white", opacity=0.6)
        layers.insert(1, pale)
    chart = alt.layer(*layers).properties(
        width=alt.Step(_column_px(longest)), height=alt.Step(_ROW_PX)
    )
    return finished(chart)


def _column_px(letters: int) -> int:
    """The width of a column with a text of so many letters."""
    return min(_MAX_COLUMN_PX, round(14 + _LETTER_PX * letters))
