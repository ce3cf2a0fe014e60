"""What all charts have in common: a Vega-Lite definition without data, its rows, and the style.

Names reach a chart as data and as the domains of its scales, never within an expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchfleet.reports.tables import Comparison, Entry
from benchfleet.reports.winners import Contender
from benchfleet.reports.wording import one_line

DATA = "entries"  # the name of the data in a definition
LOWER, SAME, HIGHER = "#b35806", "#f7f7f7", "#2166ac"  # colour-blind readers can distinguish them
OTHERS = "#9aa3ab"  # series without a colour of their own
# Okabe and Ito's colours, which colour-blind readers can distinguish; each has a shape as well
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c510a", "#666666")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "arrow", "wedge")
ROW_PX = 22  # pixels of a row
MAX_LABEL_PX = 220  # pixels of a name; the pointer shows the whole


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
            labelLimit=MAX_LABEL_PX,
            labelFontSize=12,
            titleFontWeight="normal",
            domain=False,
            ticks=False,
            gridColor="#8888",
            gridOpacity=0.35,
        )
        .configure_legend(labelColor="currentColor", titleColor="currentColor", labelLimit=260)
        .configure_header(labelColor="currentColor", titleColor="currentColor", labelLimit=260)
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
    known_labels: dict[Contender, str] = {}
    for entry in comparison.entries:
        contender = (entry.model, entry.config)
        if contender in known_labels:
            continue
        parts = [entry.config] if len(comparison.models) == 1 else [entry.model, entry.config]
        if len(comparison.configs) == 1 and len(comparison.models) > 1:
            parts = [entry.model]
        line = label = one_line(" × ".join(parts))
        number = 1
        while label in known_labels.values():
            number += 1
            label = f"{line} ({number})"
        known_labels[contender] = label
    return known_labels


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


def series_scales(names: Sequence[str], other_shape: str) -> tuple[list[str], Any, Any]:
    """The names with a colour and a shape of their own, and both as encodings of ``series``: one
    of these names, or ``others``."""
    import altair as alt

    own, colours, shapes = series(names)
    domain = [*own, *(["others"] if len(names) > len(own) else [])]
    colour = alt.Color("series:N", title=None).scale(domain=domain, range=[*colours, OTHERS])
    shape = alt.Shape("series:N", title=None).scale(domain=domain, range=[*shapes, other_shape])
    return own, colour, shape
