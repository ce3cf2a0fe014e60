"""The texts of an SVG are as wide as they were measured, whatever font a viewer has."""

from __future__ import annotations

import html
import re

import pytest

from benchfleet.reports.charts.fixed_widths import with_fixed_widths
from benchfleet.reports.charts.images import image
from drawn_charts import HOSTILE, only

from .conftest import Study

TEXT = re.compile(r'<text(?: [\w-]+="[^"]*")* font-size="(\d+)px"([^<]*)>([^<]+)</text>')


@pytest.mark.slow
def test_each_text_of_a_picture_has_the_width_by_which_it_was_laid_out(study: Study) -> None:
    for config in ("dense", HOSTILE):
        study.done(config, [1.0] * 9 + [0.0], subset="a & b")
    picture = image([only(study, kind) for kind in ("scores", "forest")], "svg").decode()
    texts = TEXT.findall(picture)
    assert len(texts) == picture.count("<text ") > 5
    for size, attributes, text in texts:
        (width,) = re.findall(r' textLength="([\d.]+)" lengthAdjust="spacingAndGlyphs"', attributes)
        assert 0.2 < float(width) / (int(size) * len(html.unescape(text))) < 1


def test_wider_styles_have_wider_texts() -> None:
    style = 'font-family="sans-serif" font-size'
    texts = (f'{style}="10px"', f'{style}="20px"', f'font-weight="bold" {style}="20px"')
    svg = "".join(f"<text {one}>some words</text>" for one in texts)
    small, large, bold = map(float, re.findall(r'textLength="([\d.]+)"', with_fixed_widths(svg)))
    assert large == pytest.approx(2 * small, rel=0.01)
    assert bold > large


def test_each_line_of_a_text_has_its_own_width() -> None:
    svg = '<text font-size="10px"><tspan>a</tspan><tspan x="0" dy="12">a wide line</tspan></text>'
    fixed = with_fixed_widths(svg)
    narrow, wide = map(float, re.findall(r'<tspan[^>]* textLength="([\d.]+)"', fixed))
    assert narrow < wide
    assert '<text font-size="10px"><tspan' in fixed


def test_a_picture_without_texts_stays_as_it_is() -> None:
    assert with_fixed_widths("<svg><text></text></svg>") == "<svg><text></text></svg>"
