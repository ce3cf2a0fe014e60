"""Every chart of a comparison, by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec

from benchfleet.errors import MissingExtra, UnknownName
from benchfleet.hints import hint
from benchfleet.reports import serving_charts
from benchfleet.reports.figures import figures
from benchfleet.reports.tables import Comparison

from .base import Chart
from .failed import failed
from .forest import forest
from .heat_map import heat_maps
from .lengths import lengths
from .pareto import pareto
from .spent import spent
from .steps import steps
from .timeline import Spans, timeline

# Every kind, and why it may have nothing to draw.
REASONS: Mapping[str, str] = {
    "scores": "no cell has a score",
    "differences": "no config has a score beside the baseline's",
    "forest": "no config shares two samples with the baseline",
    "pareto": "no two configs of a benchmark differ in density, time a token, or cost",
    "length": "no benchmark has scores of two subsets that are lengths, such as 4096 or 32k",
    "steps": "no benchmark has scores of two checkpoints of a series",
    "time": "no attempt has ended",
    "cost": "no attempt has a price; name one with `price:` in the campaign or the inventory",
    "failures": "no cell failed",
    "timeline": "no attempt has begun",
    "serving": "no benchmark `serving` has a result",
}
KINDS = tuple(REASONS)


_MAPS = ("scores", "differences")  # heat maps
_NO_SPANS = Spans()


def charts(comparison: Comparison, spans: Spans = _NO_SPANS) -> Iterator[Chart]:
    """All charts but the heat maps and those of serving, empty ones left out."""
    for kinds, make in _MAKERS.items():
        if kinds != _MAPS:
            yield from filter(None, make(comparison, spans))


def charts_of_kind(kind: str, comparison: Comparison, spans: Spans = _NO_SPANS) -> list[Chart]:
    """The charts of one kind, heat maps too; empty if there is nothing to draw. Raises
    `UnknownName` for a kind that does not exist, `MissingExtra` without the extra ``report``."""
    if kind not in KINDS:
        raise UnknownName(f"no chart {kind!r}; {hint(kind, KINDS)}")
    missing = [package for package in ("altair", "vl_convert") if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"a chart needs {', '.join(missing)}; pip install 'benchfleet[report]'")
    if kind == "serving":
        return [
            Chart(kind=kind, title=one.title, about="", spec=one.spec, rows=())
            for one in serving_charts.charts(comparison.serving)
        ]
    make = next(make for kinds, make in _MAKERS.items() if kind in kinds)
    built = filter(None, make(comparison, spans))
    return [chart for chart in built if chart.kind.partition("-")[0] == kind]


def _heat_maps(comparison: Comparison) -> Iterator[Chart]:
    for figure in figures(comparison):
        yield from heat_maps(figure)


# What makes the charts of these kinds: making takes a moment, so that no others are made.
_MAKERS: Mapping[tuple[str, ...], Callable[[Comparison, Spans], Iterable[Chart | None]]]
_MAKERS = {
    _MAPS: lambda comparison, _: _heat_maps(comparison),
    ("forest",): lambda comparison, _: [forest(comparison)],
    ("steps",): lambda comparison, _: [steps(comparison)],
    ("length",): lambda comparison, _: [lengths(comparison)],
    ("pareto",): lambda comparison, _: pareto(comparison),
    ("time", "cost"): lambda comparison, _: spent(comparison),
    ("timeline",): lambda _, spans: [timeline(spans)],
    ("failures",): lambda comparison, _: [failed(comparison)],
}
