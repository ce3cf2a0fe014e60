"""A forest plot: each difference to the baseline with its 95 % interval, benchmark by benchmark."""

from __future__ import annotations

from benchfleet.reports import wording
from benchfleet.reports.tables import Comparison

from .base import DATA, HIGHER, LOWER, OTHERS, ROW_PX, Chart, finished, labels

_PANEL_PX = 190  # pixels of one benchmark
_COLUMNS = 4  # panels side by side
_MARKS = {
    "higher": (HIGHER, "triangle-up"),
    "lower": (LOWER, "triangle-down"),
    "not significant": (OTHERS, "circle"),
}


def forest(comparison: Comparison) -> Chart | None:
    """The chart, or None where nothing was compared."""
    import altair as alt

    names = labels(comparison)
    rows = []
    for entry in comparison.entries:
        difference = entry.difference
        if difference is None or difference.difference is None or difference.p_value is None:
            continue
        low, high = difference.interval or (difference.difference, difference.difference)
        digits = wording.decimals(comparison, entry.benchmark)
        significant = "higher" if difference.difference > 0 else "lower"
        rows.append(
            {
                "row": names[entry.model, entry.config],
                "panel": wording.one_line(entry.benchmark),
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
    order = [name for name in names.values() if any(row["row"] == name for row in rows)]
    panels = list(dict.fromkeys(str(row["panel"]) for row in rows))
    base = alt.Chart().encode(
        y=alt.Y("row:N", title=None).scale(domain=order).axis(labelLimit=360),
        tooltip=[
            alt.Tooltip("row:N", title="config"),
            alt.Tooltip("panel:N", title="benchmark"),
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
            x=alt.X("low:Q", title=None).axis(grid=True, tickCount=3, labelOverlap="greedy"),
            x2="high:Q",
            color=colour,
        ),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x="difference:Q", color=colour, shape=shape
        ),
    ).properties(width=_PANEL_PX, height=alt.Step(ROW_PX))
    chart = layers.facet(
        data=alt.NamedData(name=DATA),
        facet=alt.Facet("panel:N", title=None).sort(panels).header(labelFontSize=12),
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
