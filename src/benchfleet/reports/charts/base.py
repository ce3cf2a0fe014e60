"""What all charts have in common: a Vega-Lite definition without data, its rows, and the style.

Names reach a chart as data and as the domains of its scales, never within an expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchfleet.reports.labels import MAX_LABEL_PX, distinct, isolated, shortened
from benchfleet.reports.tables import Comparison, Entry
from benchfleet.reports.winners import Contender

DATA = "entries"  # the name of the data in a definition
LOWER, SAME, HIGHER = "#b35806", "#f7f7f7", "#2166ac"  # colour-blind readers can distinguish them
OTHERS = "#9aa3ab"  # series without a colour of their own
# Okabe and Ito's colours, which colour-blind readers can distinguish; each has a shape as well
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c510a", "#666666")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "arrow", "wedge")
ROW_PX = 22  # pixels of a row
MAX_LONG_LABEL_PX = 360  # pixels of a name that has a row to itself
_MAX_LEGEND_PX, _LEGEND_FONT_PX = 260, 10  # of a name in a legend
_MAX_HEADER_PX = 260  # of a panel's name
_FONT_RESERVE = 1.25  # how much wider than estimated a name may be before its end is cut


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart: `spec` is Vega-Lite whose data is called `DATA`, `rows` are that data."""

    kind: str  # such as "forest"
    title: str  # not cleaned of what a name may hold
    about: str  # a sentence or two: what it shows and how to read it
    spec: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...]


def finished(chart: Any) -> dict[str, Any]:
    """An Altair chart in the common style, as Vega-Lite."""
    styled = (
        chart.configure(font="system-ui, sans-serif", background="transparent")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor="currentColor",
            titleColor="currentColor",
            labelLimit=label_limit(MAX_LABEL_PX),
            labelFontSize=12,
            titleFontWeight="normal",
            domain=False,
            ticks=False,
            gridColor="#8888",
            gridOpacity=0.35,
        )
        .configure_legend(
            labelColor="currentColor",
            titleColor="currentColor",
            labelLimit=label_limit(_MAX_LEGEND_PX),
        )
        .configure_header(
            labelColor="currentColor",
            titleColor="currentColor",
            labelLimit=label_limit(_MAX_HEADER_PX),
        )
    )
    return dict(styled.to_dict(validate=False))  # which takes longer than all the rest


@cache
def common() -> Mapping[str, Any]:
    """What every definition has: the schema, the style and the name of its data."""
    import altair as alt

    chart = finished(alt.Chart(alt.NamedData(name=DATA)).mark_rect())
    return {key: value for key, value in chart.items() if key != "mark"}


def labels(comparison: Comparison) -> dict[Contender, str]:
    """What each model × config is called in charts, on one line; equal names are numbered."""
    names: dict[Contender, str] = {}
    for model, config in dict.fromkeys((one.model, one.config) for one in comparison.entries):
        parts = [config] if len(comparison.models) == 1 else [model, config]
        if len(comparison.configs) == 1 and len(comparison.models) > 1:
            parts = [model]
        names[model, config] = " × ".join(map(isolated, parts))
    return distinct(names)


def label_limit(px: float) -> int:
    """Where Vega cuts the end of a label that was shortened to about so many pixels."""
    return round(px * _FONT_RESERVE)


def panels(rows: Sequence[dict[str, Any]], font_px: float = 10) -> list[str]:
    """Give each row's `panel` a label that fits above its panel, with the whole name as
    `benchmark`; and the labels, in the order of the rows."""
    short = shortened((row["panel"] for row in rows), _MAX_HEADER_PX, font_px)
    for row in rows:
        row["benchmark"] = row["panel"]
        row["panel"] = short[row["panel"]]
    return [*short.values()]


def best_first(comparison: Comparison) -> list[Contender]:
    """The contenders by how many benchmarks they lead, then by their mean rank."""
    ranks: dict[Contender, list[int]] = {}
    by_benchmark: dict[str, list[Entry]] = {}
    for entry in comparison.entries:
        if entry.mean is not None:
            by_benchmark.setdefault(entry.benchmark, []).append(entry)
    for entries in by_benchmark.values():
        means = sorted((entry.mean for entry in entries if entry.mean is not None), reverse=True)
        for entry in entries:
            if entry.mean is not None:
                ranks.setdefault((entry.model, entry.config), []).append(means.index(entry.mean))
    return sorted(ranks, key=lambda one: (-ranks[one].count(0), sum(ranks[one]) / len(ranks[one])))


def series(names: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """The names that get a colour and a shape of their own, at most eight, with both."""
    own = [*names[: len(COLOURS)]]
    return own, [*COLOURS[: len(own)]], [*SHAPES[: len(own)]]


def series_scales(names: Sequence[str], other_shape: str) -> tuple[dict[str, str], Any, Any]:
    """The labels of the names with a colour and a shape of their own, and both as encodings of
    ``series``: one of these labels, or ``others``."""
    import altair as alt

    own, colours, shapes = series(names)
    labels = shortened(own, _MAX_LEGEND_PX, _LEGEND_FONT_PX)
    domain = [*labels.values(), *(["others"] if len(names) > len(own) else [])]
    colour = alt.Color("series:N", title=None).scale(domain=domain, range=[*colours, OTHERS])
    shape = alt.Shape("series:N", title=None).scale(domain=domain, range=[*shapes, other_shape])
    return labels, colour, shape
