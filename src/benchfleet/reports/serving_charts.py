"""Charts of serving results, drawn as SVG when the report is made: they need no script."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .charts.base import series_scales
from .serving import ServingPoint

_WIDTH, _HEIGHT, _LOW_HEIGHT = 340, 220, 110
_LABEL_PX = 22, 18  # pixels that the label of a point takes above it: width and height
# Cumulative curves in one chart, each with a dash pattern, for those who see no colours.
_DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [12, 3], [1, 4], [6, 2, 2, 2, 2, 2])


class Chart(NamedTuple):
    """A chart with its title, as a Vega-Lite specification."""

    title: str
    spec: dict[str, Any]

    @property
    def svg(self) -> str:
        """The chart as SVG."""
        import vl_convert

        return str(vl_convert.vegalite_to_svg(self.spec))

    @property
    def source(self) -> str:
        """As the source of an image."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg.encode()).decode()


def charts(points: Sequence[ServingPoint]) -> Iterator[Chart]:
    """The charts that these points give; none for fewer than two measured ones but curves."""
    measured = [one for one in points if one.latency("ttft", "p50") is not None]
    if len(measured) > 1:
        yield Chart("Latency against rate", _latency_against_rate(measured))
        yield Chart("Throughput against latency", _throughput_against_latency(measured))
    for name, title in (("ttft", "TTFT"), ("tpot", "TPOT"), ("e2e", "E2E")):
        if rows := _curve_rows(measured[: len(_DASHES)], name):
            more = len(measured) - len(_DASHES)
            part = f", {len(_DASHES)} of {len(measured)} points" if more > 0 else ""
            yield Chart(f"Cumulative {title}{part}", _cumulative(rows, title))


def _latency_against_rate(points: Sequence[ServingPoint]) -> dict[str, Any]:
    """TTFT by the achieved rate; beneath it the server's own numbers at each point."""
    import altair as alt

    rows, server = [], []
    for one in points:
        rate = one.metrics.get("requests_per_second")
        common = {"name": _curve(one), "rate": rate, "load": one.label}
        for percent in ("p50", "p99"):
            value = one.latency("ttft", percent)
            rows.append({**common, "percentile": percent, "ms": value})
        samples = one.metrics.get("server") or ()
        if cache := [sample["kv_cache"] for sample in samples if "kv_cache" in sample]:
            server.append({**common, "what": "KV cache, largest part", "value": max(cache)})
        if queue := [sample["queued"] for sample in samples if "queued" in sample]:
            server.append({**common, "what": "queued requests, mean", "value": _mean(queue)})
        if running := [sample["running"] for sample in samples if "running" in sample]:
            server.append({**common, "what": "running requests, mean", "value": _mean(running)})
    x = alt.X("rate:Q", title="requests per second")
    colour, shape = _named([*rows, *server])
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=x,
        y=alt.Y("ms:Q", title="TTFT, ms"),
        color=colour,
        detail=["name:N", "percentile:N"],
    )
    lines = base.mark_line().encode(strokeDash=alt.StrokeDash("percentile:N", title=None))
    dots = base.mark_point(filled=True, size=40).encode(shape=shape)
    top = (lines + dots).properties(width=_WIDTH, height=_HEIGHT)
    if not server:
        return _finished(top)
    kinds = list(dict.fromkeys(row["what"] for row in server))
    below = []
    for kind in kinds:
        base = alt.Chart(alt.Data(values=[row for row in server if row["what"] == kind])).encode(
            x=x, y=alt.Y("value:Q", title=kind), color=colour, detail="name:N"
        )
        marks = base.mark_point(filled=True, size=40).encode(shape=shape)
        below.append((base.mark_line() + marks).properties(width=_WIDTH, height=_LOW_HEIGHT))
    return _finished(alt.vconcat(top, *below))


def _throughput_against_latency(points: Sequence[ServingPoint]) -> dict[str, Any]:
    """Tokens per second of the whole server by those of one user: up and right is better."""
    import altair as alt

    rows = []
    for one in points:
        tpot, speed = one.latency("tpot", "p50"), one.metrics.get("output_tokens_per_second")
        if tpot and speed is not None:
            label = f"{one.metrics.get('level', 0):g}" + ("/s" if one.is_open else "")
            rows.append({"name": _curve(one), "user": 1000 / tpot, "all": speed, "load": label})
    colour, shape = _named(rows)
    _drop_overlapping_labels(rows)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("user:Q", title="tokens per second of one user (1000 / median TPOT)").scale(
            zero=False
        ),
        y=alt.Y("all:Q", title="output tokens per second"),
        color=colour,
        detail="name:N",
    )
    lines = base.mark_line(opacity=0.5).encode(order="all:Q")
    marks = base.mark_point(filled=True, size=45, opacity=1).encode(shape=shape)
    labels = base.mark_text(dy=-9, fontSize=10).encode(text="load:N")
    return _finished((lines + marks + labels).properties(width=_WIDTH, height=_HEIGHT))


def _drop_overlapping_labels(rows: list[dict[str, Any]]) -> None:
    """Empty the labels that would lie on a faster point or its label."""
    lowest, highest = min(row["user"] for row in rows), max(row["user"] for row in rows)
    x_scale = _WIDTH / (highest - lowest or 1.0)
    y_scale = _HEIGHT / (max(row["all"] for row in rows) or 1.0)
    drawn: list[tuple[float, float]] = []
    for row in sorted(rows, key=lambda row: -row["all"]):
        x, y = row["user"] * x_scale, row["all"] * y_scale
        if any(abs(x - a) < _LABEL_PX[0] and abs(y - b) < _LABEL_PX[1] for a, b in drawn):
            row["load"] = ""
        drawn.append((x, y))


def _curve_rows(points: Sequence[ServingPoint], name: str) -> list[dict[str, Any]]:
    rows = []
    for one in points:
        key = f"{name}_scheduled_ms" if one.is_open and name != "tpot" else f"{name}_ms"
        values = (one.metrics.get("curves") or {}).get(key) or ()
        last = max(1, len(values) - 1)
        rows += [
            {"name": f"{one.config} {one.label}", "ms": value, "share": at / last}
            for at, value in enumerate(values)
        ]
    return rows


def _cumulative(rows: Sequence[dict[str, Any]], title: str) -> dict[str, Any]:
    import altair as alt

    colour, _ = _named(rows)
    names = list(dict.fromkeys(row["series"] for row in rows))
    dash = alt.StrokeDash("series:N", title=None).scale(domain=names, range=_DASHES[: len(names)])
    longer = {"symbolSize": 900, "symbolStrokeWidth": 2}  # a legend that shows a whole dash pattern
    chart = (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("ms:Q", title=f"{title}, ms"),
            y=alt.Y("share:Q", title="share of requests").axis(format="%"),
            color=colour.legend(**longer),
            strokeDash=dash.legend(**longer),
        )
        .properties(width=_WIDTH, height=_HEIGHT)
    )
    return _finished(chart)


def _curve(point: ServingPoint) -> str:
    """What one curve is of: open and closed loops are different loads."""
    return f"{point.series}, {'open' if point.is_open else 'closed'} loop"


def _named(rows: Sequence[dict[str, Any]]) -> tuple[Any, Any]:
    """Set the ``series`` of each row from its ``name``; its colour and shape as encodings."""
    own, colour, shape = series_scales(list(dict.fromkeys(row["name"] for row in rows)), "circle")
    for row in rows:
        row["series"] = own.get(row["name"], "others")
    return colour, shape


def _finished(chart: Any) -> dict[str, Any]:
    configured = (
        chart.configure(font="sans-serif", background="white")
        .configure_axis(labelFlush=False, labelOverlap="greedy", labelSeparation=6)
        .configure_legend(orient="bottom", columns=2, labelLimit=300)
    )
    return dict(configured.to_dict())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
