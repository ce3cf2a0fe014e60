"""A forest plot: each difference to the baseline with its 95 % interval, benchmark by benchmark."""

from __future__ import annotations

from typing import Any

from benchfleet.reports import wording
from benchfleet.reports.labels import isolated, shortened
from benchfleet.reports.tables import Comparison

from .base import (
    DATA,
    HIGHER,
    LOWER,
    MAX_LONG_LABEL_PX,
    OTHERS,
    ROW_PX,
    Chart,
    finished,
    label_limit,
    labels,
    panels,
)

_PANEL_PX = 190  # pixels of one benchmark
_COLUMNS = 4  # panels side by side
_HEADER_FONT_PX = 12
_PADDING_PX = 8  # pixels between the widest interval and the edge of its panel
_MARKS = {
    "higher": (HIGHER, "triangle-up"),
    "lower": (LOWER, "triangle-down"),
    "not significant": (OTHERS, "circle"),
}


def forest(comparison: Comparison) -> Chart | None:
    """The chart, or None where nothing was compared."""
    import altair as alt

    names = labels(comparison)
    short = shortened(names.values(), MAX_LONG_LABEL_PX)
    rows: list[dict[str, Any]] = []
    for entry in comparison.entries:
        difference = entry.difference
        if difference is None or difference.difference is None or difference.p_value is None:
            continue
        low, high = difference.interval or (difference.difference, difference.difference)
        digits = wording.decimals(comparison, entry.benchmark)
        significant = "higher" if difference.difference > 0 else "lower"
        name = names[entry.model, entry.config]
        rows.append(
            {
                "row": short[name],
                "name": name,
                "panel": isolated(entry.benchmark),
                "difference": difference.difference,
                "low": low,
                "high": high,
                "mark": significant if difference.sure else "not significant",
                "text": wording.difference(entry, digits),
                "interval": wording.interval(entry, digits),
                "p": wording.p_text(difference),
            }
        )
    if not rows:
        return None
    present = {row["row"] for row in rows}
    order = [label for label in short.values() if label in present]
    base = alt.Chart().encode(
        y=alt.Y("row:N", title=None)
        .scale(domain=order)
        .axis(labelLimit=label_limit(MAX_LONG_LABEL_PX)),
        tooltip=[
            alt.Tooltip("name:N", title="config"),
            alt.Tooltip("benchmark:N"),
            alt.Tooltip("text:N", title="difference"),
            alt.Tooltip("interval:N", title="95 % interval"),
            alt.Tooltip("p:N", title="after correction"),
        ],
    )
    marks = {name: mark for name, mark in _MARKS.items() if any(r["mark"] == name for r in rows)}
    colours, shapes = zip(*marks.values(), strict=True)
    colour = alt.Color("mark:N", title=None).scale(domain=[*marks], range=[*colours])
    shape = alt.Shape("mark:N", title=None).scale(domain=[*marks], range=[*shapes])
    zero = alt.Chart().mark_rule(strokeDash=[3, 3], color="currentColor")
    layers = alt.layer(
        zero.encode(x=alt.datum(0)),
        base.mark_rule(strokeWidth=2).encode(
            x=alt.X("low:Q", title=None)
            .scale(padding=_PADDING_PX)
            .axis(grid=True, tickCount=3, labelOverlap="greedy"),
            x2="high:Q",
            color=colour,
        ),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x="difference:Q", color=colour, shape=shape
        ),
    ).properties(width=_PANEL_PX, height=alt.Step(ROW_PX))
    chart = layers.facet(
        data=alt.NamedData(name=DATA),
        facet=alt.Facet("panel:N", title=None)
        .sort(panels(rows, _HEADER_FONT_PX))
        .header(labelFontSize=_HEADER_FONT_PX),
        columns=_COLUMNS,
    ).resolve_scale(x="independent")
    return Chart(
        kind="forest",
        title=f"Differences to {comparison.baseline}",
        about="The difference on the same samples with its 95 % interval. Triangles are "
        "significant after correction; grey circles are not.",
        spec=finished(chart),
        rows=tuple(rows),
    )
