"""Scores with intervals as lines over a number, a panel for each benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from benchfleet.domain.humanize import counted
from benchfleet.reports import wording
from benchfleet.reports.tables import Comparison, Entry

from .base import DATA, Chart, finished, panels, series_scales

_PANEL_PX = (340, 240)  # pixels of one benchmark: width and height
_COLUMNS = 2  # panels side by side
# The best line is the thickest and lies below the others, so that equal lines are all seen.
_LEAST_PX, _STEP_PX, _MOST_PX = 1.2, 1.6, 6.0  # of a line
_LEAST_SIZE, _STEP_SIZE, _MOST_SIZE = 45, 55, 220  # of a point, in square pixels


def point(comparison: Comparison, entry: Entry, mean: float) -> dict[str, Any]:
    """The score of an entry, its interval, and both as a text."""
    error = 1.96 * (entry.stderr or 0.0)
    text = wording.score(entry, wording.decimals(comparison, entry.benchmark))
    return {"score": mean, "low": mean - error, "high": mean + error, "text": text}


def line_chart(
    rows: Sequence[dict[str, Any]],
    names: Sequence[str],
    *,
    kind: str,
    title: str,
    x: str,
    axis: str,
    scale: Literal["log", "linear"],
) -> Chart | None:
    """A chart of rows with ``name``, ``panel``, the number `x`, and a point's values. Panels of
    fewer than two numbers are left out; None if none is left. `names` has the best first."""
    import altair as alt

    several = {
        panel
        for panel in {row["panel"] for row in rows}
        if len({row[x] for row in rows if row["panel"] == panel}) > 1
    }
    rows = [row for row in rows if row["panel"] in several]
    if not rows:
        return None
    order = panels(rows)
    present = {row["name"] for row in rows}
    lines = _names_of_lines(rows, x)
    ranked = sorted((name for name in names if name in present), key=lambda name: name not in lines)
    own, colour, shape = series_scales(ranked, "stroke")
    thickness = {name: rank for rank, name in enumerate(reversed(own))}
    steps = max(1, len(own) - 1)
    step = min(_STEP_PX, (_MOST_PX - _LEAST_PX) / steps)
    size_step = min(_STEP_SIZE, (_MOST_SIZE - _LEAST_SIZE) / steps)
    for row in rows:
        row["series"] = own.get(row["name"], "others")
        rank = thickness.get(row["name"], 0)
        row["width"], row["size"] = _LEAST_PX + step * rank, _LEAST_SIZE + size_step * rank
    rows = sorted(rows, key=lambda row: -row["width"])
    colour = colour.legend(symbolOpacity=1)
    shared = alt.X(f"{x}:Q", title=axis)
    if scale == "log":
        ticks = sorted({int(row[x]) for row in rows})
        shared = shared.scale(type="log", base=2, nice=False, padding=14)
        shared = shared.axis(values=ticks, format="d", labelOverlap="greedy")
    else:
        shared = shared.scale(zero=False, nice=False, padding=14)
        shared = shared.axis(format="~s", labelOverlap="greedy", tickCount=6)
    base = alt.Chart().encode(
        x=shared,
        detail="name:N",
        color=colour,
        tooltip=[
            alt.Tooltip("name:N", title="config"),
            alt.Tooltip(f"{x}:Q", title=axis.partition(" (")[0]),
            alt.Tooltip("text:N", title="score"),
        ],
    )

    def lines_of(condition: str, **style: float) -> Any:
        width = alt.StrokeWidth("width:Q", scale=None, legend=None)
        mark = base.transform_filter(condition).mark_line(**style)
        return mark.encode(y="score:Q", strokeWidth=width)

    chart = (
        alt.layer(
            base.transform_filter("datum.series != 'others'")
            .mark_rule(opacity=0.5, clip=True)
            .encode(y=alt.Y("low:Q", title="score").scale(zero=False, padding=8), y2="high:Q"),
            # The others lie below, so that they hide nothing.
            lines_of("datum.series == 'others'", opacity=0.4),
            lines_of("datum.series != 'others'"),
            base.mark_point(filled=True, opacity=1).encode(
                y="score:Q",
                shape=shape,
                size=alt.Size("size:Q", scale=None, legend=None),
                order=alt.Order("size:Q", sort="descending"),
            ),
        )
        .properties(width=_PANEL_PX[0], height=_PANEL_PX[1])
        .facet(
            data=alt.NamedData(name=DATA),
            facet=alt.Facet("panel:N", title=None).sort(order),
            columns=_COLUMNS,
        )
        .resolve_scale(x="independent", y="independent")
    )
    others = len(present) - len(own)
    return Chart(
        kind=kind,
        title=title,
        about="Mean with its 95 % interval (1.96 standard errors). Equal lines lie on each other, "
        "the thinner on the thicker."
        + (f" Grey are others: {counted(others, 'line')}." if others else ""),
        spec=finished(chart),
        rows=tuple(rows),
    )


def _names_of_lines(rows: Sequence[dict[str, Any]], x: str) -> set[str]:
    """The names with two numbers or more in a panel; the others are lone points."""
    numbers: dict[tuple[str, str], set[float]] = {}
    for row in rows:
        numbers.setdefault((row["name"], row["panel"]), set()).add(row[x])
    return {name for (name, _), some in numbers.items() if len(some) > 1}
