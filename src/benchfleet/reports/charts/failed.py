"""How many cells failed, by stage and kind."""

from __future__ import annotations

from benchfleet.domain.plain_text import one_line
from benchfleet.reports.tables import Comparison

from .base import DATA, LOWER, ROW_PX, Chart, finished

_WIDTH_PX = 420


def failed(comparison: Comparison) -> Chart | None:
    """The chart, or None where nothing failed."""
    import altair as alt

    counts: dict[str, int] = {}
    for group in comparison.failures:
        name = one_line(f"{group.stage}: {group.kind}")
        counts[name] = counts.get(name, 0) + len(group.cells)
    if not counts:
        return None
    order = sorted(counts, key=lambda name: -counts[name])
    base = alt.Chart(alt.NamedData(name=DATA)).encode(
        x=alt.X("cells:Q", title="cells").axis(tickMinStep=1, format="d"),
        y=alt.Y("name:N", title=None).scale(domain=order),
        tooltip=[alt.Tooltip("name:N", title="failure"), alt.Tooltip("cells:Q")],
    )
    chart = alt.layer(
        base.mark_bar(color=LOWER),
        base.mark_text(align="left", dx=4, color="currentColor").encode(text="cells:Q"),
    ).properties(width=_WIDTH_PX, height=alt.Step(ROW_PX))
    return Chart(
        kind="failures",
        title="Failures by stage and kind",
        about="Cells that have no whole result.",
        spec=finished(chart),
        rows=tuple({"name": name, "cells": counts[name]} for name in order),
    )
