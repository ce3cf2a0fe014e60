"""Charts as Vega draws them, for tests that look at them."""

from __future__ import annotations

import re
from typing import Any

import vl_convert

from benchfleet.reports.charts import base
from benchfleet.reports.charts.base import Chart
from benchfleet.reports.charts.collection import charts_of_kind

HOSTILE = '"] || 1 + datum.x </text><b>`${y}`'  # as a name


def only(study: Any, kind: str) -> Chart:
    """The one chart of this kind that the cells of a study make."""
    (chart,) = charts_of_kind(kind, study.compared())
    return chart


def svg(chart: Chart) -> str:
    spec = {**chart.spec, "datasets": {base.DATA: list(chart.rows)}}
    return str(vl_convert.vegalite_to_svg(spec))


def texts(chart: Chart) -> list[str]:
    return re.findall(r"<text [^>]*>([^<]*)</text>", svg(chart))


def marks(chart: Chart, role: str) -> int:
    """How many shapes of one kind are drawn, all panels together."""
    return len(re.findall(rf'aria-roledescription="{role}"', svg(chart)))
