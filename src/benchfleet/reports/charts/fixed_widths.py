"""Texts of an SVG that are as wide as measured, with whatever font a viewer draws them.

A chart is laid out with the fonts of this machine, but a viewer draws it with its own. Where those
are wider, names would leave the picture or run into marks.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

_TEXT = re.compile(r'<(text|tspan)((?: [\w-]+="[^"]*")*)>([^<]*)')  # a text, or a line of one
_ATTRIBUTE = re.compile(r' ([\w-]+)="([^"]*)"')
_STYLE = {  # Vega's names of what a width depends on, with SVG's
    "font": "font-family",
    "fontSize": "font-size",
    "fontStyle": "font-style",
    "fontWeight": "font-weight",
}


def with_fixed_widths(svg: str) -> str:
    """The picture with the width of each of its texts, to which a viewer then fits the text."""
    texts = [*_texts(svg)]
    different = [text for text in dict.fromkeys(texts) if text[0]]
    widths = dict(zip(different, _measured(different), strict=True))
    following = iter(texts)

    def fixed(match: re.Match[str]) -> str:
        width = widths.get(next(following))
        if not width:
            return match[0]
        fit = f'textLength="{width:.2f}" lengthAdjust="spacingAndGlyphs"'
        return f"<{match[1]}{match[2]} {fit}>{match[3]}"

    return _TEXT.sub(fixed, svg)


def _texts(svg: str) -> Iterator[tuple[str, ...]]:
    """Each text, with its style in the order of `_STYLE`; "" for what is not set."""
    style: tuple[str, ...] = ()
    for match in _TEXT.finditer(svg):
        if match[1] == "text":
            attributes = dict(_ATTRIBUTE.findall(match[2]))
            style = tuple(attributes.get(name, "") for name in _STYLE.values())
        yield (match[3], *style)


def _measured(texts: Sequence[tuple[str, ...]]) -> list[float]:
    """How wide each text is by the fonts with which charts are laid out."""
    import vl_convert

    fields = ("text", *_STYLE)
    rows = [dict(zip(fields, map(html.unescape, text), strict=True)) for text in texts]
    for row in rows:
        row["fontSize"] = row["fontSize"].removesuffix("px")
    text = {name: {"field": name} for name in fields}
    width = {"x": {"signal": "datum.bounds.x1"}, "x2": {"signal": "datum.bounds.x2"}}
    spec = {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "data": [{"name": "texts", "values": rows}],
        "marks": [
            {"type": "text", "name": "drawn", "from": {"data": "texts"}, "encode": {"enter": text}},
            {"type": "rule", "from": {"data": "drawn"}, "encode": {"update": width}},
        ],
    }
    (root,) = vl_convert.vega_to_scenegraph(spec)["scenegraph"]["items"]
    _, rules = root["items"]
    return [rule["x2"] - rule["x"] for rule in rules["items"]]
