"""What a score costs: score against attention density, time a token or money, the front marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchfleet.domain.humanize import counted
from benchfleet.reports import wording
from benchfleet.reports.labels import isolated
from benchfleet.reports.tables import Comparison, Entry

from .base import DATA, Chart, best_first, finished, labels, panels, series_scales

_PANEL_PX = 240  # pixels of one benchmark, both ways
_COLUMNS = 3  # panels side by side


@dataclass(frozen=True)
class _Price:
    kind: str
    title: str
    axis: str
    of: Callable[[Entry], float | None]


def _money(entry: Entry) -> float | None:
    costs = entry.spent.bill.costs or {}
    return sum(costs.values()) if len(costs) == 1 else None


def _seconds(entry: Entry) -> float | None:
    return 1 / entry.tokens_per_second if entry.tokens_per_second else None


_PRICES = (
    _Price("density", "Score against attention density", "attention density", lambda e: e.density),
    _Price("time", "Score against time", "seconds a token", _seconds),
    _Price("cost", "Score against cost", "cost", _money),
)


def pareto(comparison: Comparison) -> Iterator[Chart]:
    """A chart for each price that two entries of a benchmark differ in."""
    currencies = {name for one in comparison.entries for name in one.spent.bill.costs or {}}
    for price in _PRICES:
        if price.kind == "cost":
            if len(currencies) != 1:
                continue  # money of two currencies has no common axis
            price = replace(price, axis=f"cost {min(currencies)}".strip())
        chart = _pareto(comparison, price)
        if chart:
            yield chart


def _pareto(comparison: Comparison, price: _Price) -> Chart | None:
    import altair as alt

    names, rows = labels(comparison), []
    for benchmark in comparison.benchmarks:
        priced = [
            (entry, cost)
            for entry in comparison.entries
            if entry.benchmark == benchmark and entry.mean is not None
            if (cost := price.of(entry)) is not None
        ]
        if len({cost for _, cost in priced}) < 2:
            continue
        digits = wording.decimals(comparison, benchmark)
        front = _front([(cost, entry.mean or 0.0) for entry, cost in priced])
        for (entry, cost), on_front in zip(priced, front, strict=True):
            rows.append(
                {
                    "name": names[entry.model, entry.config],
                    "panel": isolated(benchmark),
                    "cost": cost,
                    "score": entry.mean,
                    "front": "on the front" if on_front else "dominated",
                    "text": wording.score(entry, digits),
                }
            )
    if not rows:
        return None
    present = {row["name"] for row in rows}
    ranked = [names[one] for one in best_first(comparison) if names[one] in present]
    own, colour, shape = series_scales(ranked, "circle")
    for row in rows:
        row["series"] = own.get(str(row["name"]), "others")
    base = alt.Chart().encode(
        x=alt.X("cost:Q", title=price.axis)
        .scale(zero=False, padding=12)
        .axis(tickCount=3, format="~g", labelOverlap="greedy", labelSeparation=8),
        y=alt.Y("score:Q", title="score").scale(zero=False, padding=12).axis(format=".4~g"),
    )
    marks = base.encode(
        color=colour,
        shape=shape,
        size=alt.when(alt.datum.series == "others").then(alt.value(28)).otherwise(alt.value(90)),
        tooltip=[
            alt.Tooltip("name:N", title="config"),
            alt.Tooltip("text:N", title="score"),
            alt.Tooltip("cost:Q", title=price.axis, format=".4~g"),
            alt.Tooltip("front:N", title="Pareto"),
        ],
    )
    on_front = base.transform_filter("datum.front == 'on the front'").encode(order="cost:Q")
    chart = (
        alt.layer(
            on_front.mark_line(
                interpolate="step-after", color="currentColor", strokeDash=[4, 3], opacity=0.6
            ),
            marks.transform_filter("datum.front != 'on the front'").mark_point(opacity=1),
            marks.transform_filter("datum.front == 'on the front'").mark_point(
                opacity=1, filled=True
            ),
        )
        .properties(width=_PANEL_PX, height=_PANEL_PX)
        .facet(
            data=alt.NamedData(name=DATA),
            facet=alt.Facet("panel:N", title=None).sort(panels(rows)),
            columns=_COLUMNS,
        )
        .resolve_scale(x="independent", y="independent")
    )
    others = len(present) - len(own)
    return Chart(
        kind=f"pareto-{price.kind}",
        title=price.title,
        about="The dashed line joins what nothing else beats in both (filled): the Pareto front."
        + (f" Grey are others: {counted(others, 'point')}." if others else ""),
        spec=finished(chart),
        rows=tuple(rows),
    )


def _front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether no other point costs no more and scores no less, and is better in one."""
    return [
        not any(
            other_cost <= cost
            and other_score >= score
            and (other_cost, other_score) != (cost, score)
            for other_cost, other_score in points
        )
        for cost, score in points
    ]
