"""Verdicts of judges: how they are written, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Sequence

FORMS = {
    "scale": "End with a line of its own: VERDICT: N, where N is a number from {0:g} to {1:g}.",
    "pair": "End with a line of its own: VERDICT: A, VERDICT: B or VERDICT: TIE.",
}
DEFAULT_SCALE = (1.0, 5.0)
ORDER_BIASED = 0.25  # the share of pairs with an order flip above which a judge is named
_LINE = re.compile(r"VERDICT: (A|B|TIE|-?\d+(?:\.\d+)?)")
_WINS = {"A": 1.0, "TIE": 0.5, "B": 0.0}


def parse_verdict(text: str, scale: Sequence[float] | None) -> float | None:
    """The verdict in the last line of a text: a number of the scale, or the share that the first of
    a pair won. None for anything else, and for several verdicts."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if not lines or sum("VERDICT:" in line for line in lines) != 1:
        return None
    match = _LINE.fullmatch(lines[-1])
    if match is None:
        return None
    if scale is None:
        return _WINS.get(match[1])
    if match[1] in _WINS:
        return None
    value = float(match[1])
    return value if scale[0] <= value <= scale[1] else None
