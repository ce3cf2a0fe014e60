"""Where time and money went, cell by cell, the largest first."""

from __future__ import annotations

from collections.abc import Iterator

from benchfleet.domain.humanize import duration
from benchfleet.reports.labels import isolated, shortened
from benchfleet.reports.tables import Comparison

from .base import (
    DATA,
    HIGHER,
    LOWER,
    MAX_LONG_LABEL_PX,
    ROW_PX,
    Chart,
    finished,
    label_limit,
    labels,
)

_MAX_BARS = 40
_WIDTH_PX = 420
_UNITS = (
    ("hours", 3600.0),
    ("minutes", 60.0),
    ("seconds", 0.0),
)


def spent(comparison: Comparison) -> Iterator[Chart]:
    """A chart of slot time, and one for each currency that was paid."""
    names = labels(comparison)
    currencies = dict.fromkeys(
        currency for entry in comparison.entries for currency in entry.spent.bill.costs or {}
    )
    called = {
        id(entry): f"{names[entry.model, entry.config]} / {isolated(entry.benchmark)}"
        for entry in comparison.entries
    }
    seconds = {called[id(e)]: e.spent.bill.seconds for e in comparison.entries}
    if any(seconds.values()):
        texts = {name: duration(value) for name, value in seconds.items()}
        unit, size = next(one for one in _UNITS if max(seconds.values()) >= one[1])
        times = {name: value / (size or 1.0) for name, value in seconds.items()}
        yield _bars("time", "Time by cell", f"slot {unit}", times, texts, HIGHER)
    for currency in currencies:
        money = {
            called[id(e)]: (e.spent.bill.costs or {}).get(currency, 0.0) for e in comparison.entries
        }
        texts = {name: f"{value:.2f} {currency}" for name, value in money.items()}
        title = f"Cost by cell in {currency or 'money'}"
        yield _bars("cost", title, currency or "cost", money, texts, LOWER)


def _bars(
    kind: str, title: str, axis: str, values: dict[str, float], texts: dict[str, str], colour: str
) -> Chart:
    import altair as alt

    largest = sorted(values, key=lambda name: -values[name])
    largest_names = [name for name in largest[:_MAX_BARS] if values[name] > 0]
    short = shortened(largest_names, MAX_LONG_LABEL_PX)
    chart = (
        alt.Chart(alt.NamedData(name=DATA))
        .mark_bar(color=colour)
        .encode(
            x=alt.X("value:Q", title=axis),
            y=alt.Y("row:N", title=None)
            .scale(domain=[*short.values()])
            .axis(labelLimit=label_limit(MAX_LONG_LABEL_PX)),
            tooltip=[alt.Tooltip("name:N", title="cell"), alt.Tooltip("text:N", title=axis)],
        )
        .properties(width=_WIDTH_PX, height=alt.Step(ROW_PX))
    )
    total = sum(values.values())
    part = sum(values[name] for name in largest_names) / total if total else 1.0
    more = (
        f" The {len(largest_names)} largest of {len(values)}, {part:.0%} of all."
        if part < 1
        else ""
    )
    return Chart(
        kind=kind,
        title=title,
        about=f"All attempts and repeats of a cell together.{more}",
        spec=finished(chart),
        rows=tuple(
            {"row": short[name], "name": name, "value": values[name], "text": texts[name]}
            for name in largest_names
        ),
    )
