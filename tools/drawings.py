"""Draw the pictures of docs/how-it-works.md; `python tools/drawings.py` writes them.

A drawing is boxes on a grid and arrows between them. The SVG names no font file and loads nothing.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH, HEIGHT, COLUMN, ROW, MARGIN = 150, 58, 246, 112, 12  # of boxes and the grid, in pixels
STYLE = (
    "text{font:14px sans-serif;text-anchor:middle;fill:#1b1f24}"
    ".small{font-size:11.5px;fill:#4b5563}"
    "rect{fill:#eef2ff;stroke:#4051b5;stroke-width:1.5}"
    "path{stroke:#4051b5;stroke-width:1.5;fill:none;marker-end:url(#head)}"
)
HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#4051b5;stroke:none;marker-end:none"/>'
    "</marker>"
)


class Box(NamedTuple):
    """A box at a column and a row of the grid, with a title and a line below it."""

    column: float
    row: float
    title: str
    line: str


class Arrow(NamedTuple):
    """An arrow between two boxes, by their names, and what goes along it."""

    source: str
    target: str
    text: str = ""


class Drawing(NamedTuple):
    """Boxes by name, and the arrows between them."""

    title: str
    boxes: dict[str, Box]
    arrows: list[Arrow]


DRAWINGS = {
    "cell": Drawing(
        "From the campaign file to the report",
        {
            "file": Box(0, 0, "campaign file", "models × configs × …"),
            "cells": Box(1, 0, "cells", "each combination"),
            "ledger": Box(2, 0, "ledger", "states, claims, events"),
            "runner": Box(2, 1, "runner", "places, watches, retries"),
            "slot": Box(1, 1, "slot", "a process with its GPUs"),
            "results": Box(0, 1, "results", "sealed folders"),
            "report": Box(0, 2, "report", "tables, statistics"),
        },
        [
            Arrow("file", "cells", "plan"),
            Arrow("cells", "ledger", "enroll"),
            Arrow("ledger", "runner", "claim"),
            Arrow("runner", "slot", "cell"),
            Arrow("slot", "results", "answers"),
            Arrow("results", "report"),
        ],
    ),
    "machines": Drawing(
        "Several machines share a ledger",
        {
            "a": Box(0, 0, "machine A", "run or work"),
            "b": Box(0, 1, "machine B", "work"),
            "c": Box(0, 2, "machine C", "work"),
            "ledger": Box(1, 1, "ledger", "PostgreSQL or git"),
            "merge": Box(2, 0.5, "merge, report", "on any machine"),
            "dashboard": Box(2, 1.5, "dashboard, status", "on any machine"),
        },
        [
            Arrow("a", "ledger"),
            Arrow("b", "ledger", "claim, finish"),
            Arrow("c", "ledger"),
            Arrow("ledger", "merge"),
            Arrow("ledger", "dashboard"),
        ],
    ),
    "attempt": Drawing(
        "What becomes of a claimed cell",
        {
            "claim": Box(0, 0, "claimed", "a lease, renewed"),
            "run": Box(1, 0, "running", "each answer is kept"),
            "success": Box(2, 0, "success", "published at once"),
            "again": Box(1, 1, "waits for a retry", "by cause, with a delay"),
            "failed": Box(2, 1, "failed", "see failures, retry"),
            "lost": Box(0, 1, "lease expired", "machine lost"),
        },
        [
            Arrow("claim", "run"),
            Arrow("run", "success"),
            Arrow("run", "again", "error"),
            Arrow("again", "failed", "tries used up"),
            Arrow("claim", "lost"),
            Arrow("lost", "again", "no try charged"),
        ],
    ),
}


def render(drawing: Drawing) -> str:
    """The SVG of a drawing."""
    width = max(box.column for box in drawing.boxes.values()) * COLUMN + WIDTH + 2 * MARGIN
    height = max(box.row for box in drawing.boxes.values()) * ROW + HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" role="img" aria-label="{escape(drawing.title)}">',
        f"<title>{escape(drawing.title)}</title><style>{STYLE}</style><defs>{HEAD}</defs>",
        f'<rect width="{width:g}" height="{height:g}" style="fill:#fff;stroke:none"/>',
    ]
    for box in drawing.boxes.values():
        x, y = _corner(box)
        parts += [
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="7"/>',
            f'<text x="{x + WIDTH / 2:g}" y="{y + 25:g}">{escape(box.title)}</text>',
            f'<text class="small" x="{x + WIDTH / 2:g}" y="{y + 44:g}">{escape(box.line)}</text>',
        ]
    parts += [_arrow(drawing.boxes, arrow) for arrow in drawing.arrows]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _corner(box: Box) -> tuple[float, float]:
    return MARGIN + box.column * COLUMN, MARGIN + box.row * ROW


def _arrow(boxes: dict[str, Box], arrow: Arrow) -> str:
    """From the nearer side of one box to the nearer side of the other."""
    source, target = boxes[arrow.source], boxes[arrow.target]
    (x1, y1), (x2, y2) = _corner(source), _corner(target)
    if source.column == target.column:
        down = target.row > source.row
        x1, x2 = x1 + WIDTH / 2, x2 + WIDTH / 2
        y1, y2 = y1 + (HEIGHT if down else 0), y2 + (0 if down else HEIGHT)
        label = f'x="{(x1 + x2) / 2 + 6:g}" style="text-anchor:start"'
    else:
        right = target.column > source.column
        y1, y2 = y1 + HEIGHT / 2, y2 + HEIGHT / 2
        x1, x2 = x1 + (WIDTH if right else 0), x2 + (0 if right else WIDTH)
        label = f'x="{(x1 + x2) / 2:g}"'
    text = f'<text class="small" {label} y="{(y1 + y2) / 2 - 6:g}">{escape(arrow.text)}</text>'
    line = f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>'
    return line + (text if arrow.text else "")


def main() -> None:
    """Write each drawing."""
    for name, drawing in DRAWINGS.items():
        (PICTURES / f"{name}.svg").write_text(render(drawing), encoding="utf-8")


if __name__ == "__main__":
    main()
