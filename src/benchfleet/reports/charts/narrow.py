"""A chart for a page as narrow as a phone's: the same rows, in one column of panels."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from .base import ROW_PX, Chart

_WIDTH_PX = 300  # pixels of a panel
_NAME_PX, _LEGEND_PX = 330, 290  # pixels of a name, and of one in a legend, at most
_LETTERS = 50  # of a line of a name
_LINE_PX = 14  # pixels of such a line
_BAR_PX = 12  # pixels of a bar's height
_IN_LINES = f"[slice(datum.label, 0, {_LETTERS}), slice(datum.label, {_LETTERS})]"
_LOWER_FIRST = f"length(datum.label) > {_LETTERS} ? {_IN_LINES} : ['', datum.label]"


def narrowed(chart: Chart) -> dict[str, Any] | None:
    """A definition whose panels are one below the other, with each name above its row's mark.

    None for a time line, which needs its width.
    """
    if chart.kind == "timeline":
        return None
    spec = copy.deepcopy(dict(chart.spec))
    parts = [*_objects(spec)]
    axes = [one["encoding"]["y"] for one in parts if "y" in one.get("encoding", {})]
    axes = [y for y in axes if y["type"] == "nominal"]
    for y in axes:
        _show_whole_names(y, chart, "name")
    two_lines = any(len(name) > _LETTERS for y in axes for name in y["scale"]["domain"])
    names_px = 2 * _LINE_PX if two_lines else _LINE_PX
    for y in axes:
        y["axis"] = {
            "labelAlign": "left",
            "labelBaseline": "top",
            "labelExpr": _LOWER_FIRST if two_lines else "datum.label",
            "labelFontSize": 10.5,
            "labelLimit": _NAME_PX,
            "labelLineHeight": _LINE_PX,
            "labelOffset": -names_px - _BAR_PX / 2 - 1,
            "labelPadding": 0,
        }
    for part in parts:
        if "columns" in part:
            part["columns"] = 1
        if "width" in part and "height" in part:
            part["width"] = _WIDTH_PX
            if axes:
                part["height"] = {"step": ROW_PX + names_px}
        if part.get("type") == "bar":
            part["size"] = _BAR_PX
        if "facet" in part:
            _show_whole_names(part["facet"], chart, "benchmark")
            part["facet"]["header"] = {"labelExpr": _IN_LINES, "labelAnchor": "start"}
    spec["config"]["legend"] |= {"orient": "bottom", "columns": 1, "labelLimit": _LEGEND_PX}
    spec["config"]["header"] |= {"labelLimit": _NAME_PX, "labelPadding": 18}
    return spec


def _show_whole_names(encoding: dict[str, Any], chart: Chart, field: str) -> None:
    """Have the whole names of a field instead of their labels, if all fit into two lines."""
    names = {row[encoding["field"]]: row[field] for row in chart.rows}
    if any(len(name) > 2 * _LETTERS for name in names.values()):
        return
    encoding["field"] = field
    for part, key in ((encoding, "sort"), (encoding.get("scale", {}), "domain")):
        if key in part:
            part[key] = [names[label] for label in part[key]]


def _objects(part: Any) -> Iterator[dict[str, Any]]:
    """Every object of a definition."""
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part:
        if isinstance(inner, (dict, list)):
            yield from _objects(inner)
