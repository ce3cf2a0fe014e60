"""Charts as PNG, SVG or PDF, drawn without a browser or a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from benchfleet.domain.plain_text import one_line

from .base import DATA, Chart
from .fixed_widths import with_fixed_widths

FORMATS = ("png", "svg", "pdf")
_SCALE = 2.0  # pixels of a PNG for each of the chart's
_BACKGROUND = "white"


def image(charts: Sequence[Chart], form: str, *, titled: bool = True) -> bytes:
    """The charts one below the other, in one of `FORMATS`; `titled` puts its title above each."""
    import vl_convert

    spec = stacked(charts, titled=titled)
    if form == "png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=_SCALE))
    if form == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec))
    return with_fixed_widths(str(vl_convert.vegalite_to_svg(spec))).encode()


def stacked(charts: Sequence[Chart], *, titled: bool = True) -> dict[str, Any]:
    """One definition of all charts, each with its own data."""
    parts, datasets = [], {}
    config: dict[str, Any] = {}
    for number, chart in enumerate(charts):
        name = f"{DATA}{number}"
        part = json.loads(json.dumps(chart.spec))
        config = part.pop("config", config)
        part.pop("$schema", None)
        _rename(part, name)
        datasets[name] = [*chart.rows]
        if titled:
            part["title"] = {"text": one_line(chart.title), "anchor": "start", "fontSize": 14}
        parts.append(part)
    return {
        "$schema": charts[0].spec["$schema"],
        "config": {**config, "background": _BACKGROUND},
        "datasets": datasets,
        "vconcat": parts,
        "resolve": {
            "scale": dict.fromkeys(("color", "shape", "fill", "strokeDash"), "independent")
        },
        "spacing": 40,
    }


def _rename(part: Any, name: str) -> None:
    """Give the data of a definition another name, in place."""
    if isinstance(part, dict):
        if part.get("data") == {"name": DATA}:
            part["data"] = {"name": name}
        for inner in part.values():
            _rename(inner, name)
    elif isinstance(part, list):
        for inner in part:
            _rename(inner, name)
