"""The drawings of the documentation are those of their script, and their boxes hold their text."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from drawings import COLUMN, DRAWINGS, PICTURES, WIDTH, render  # noqa: E402


def test_each_drawing_is_what_the_script_draws() -> None:
    for name, drawing in DRAWINGS.items():
        assert (PICTURES / f"{name}.svg").read_text("utf-8") == render(drawing), (
            "run: python tools/drawings.py"
        )


def test_texts_fit_into_their_boxes_and_arrows_have_both_ends() -> None:
    for drawing in DRAWINGS.values():
        for box in drawing.boxes.values():
            assert len(box.title) * 8 < WIDTH + 10, box
            assert len(box.line) * 6.2 < WIDTH, box
        for arrow in drawing.arrows:
            assert {arrow.source, arrow.target} <= drawing.boxes.keys()
            assert len(arrow.text) * 6.2 < COLUMN - WIDTH, arrow


def test_a_drawing_loads_nothing() -> None:
    for drawing in DRAWINGS.values():
        assert render(drawing).count("http") == 1  # the name of SVG itself
