"""Roots of decreasing functions, without scipy: a report needs nothing but benchfleet."""

from __future__ import annotations

import math
from collections.abc import Callable

_MAX_STEPS = 100  # below 10 are usual


def find_root(
    function: Callable[[float], float],
    start: tuple[float, float],
    step: float,
    limit: float,
    *,
    tolerance: float,
) -> float:
    """The root of `function` between `start` and `limit`, or `limit` if there is none.

    `start` is a point with its positive value; `step` is a guess of how far the root is from it;
    `tolerance` is of the last step. By regula falsi as Anderson & Björck improved it (1973, BIT 13,
    253-264), with bisection where the function is infinite.
    """
    low, at_low = start
    while True:
        high = min(limit, start[0] + step)
        at_high = function(high)
        if at_high <= 0:
            break
        if high >= limit:
            return limit
        low, at_low, step = high, at_high, 2 * step
    side = 0
    for _ in range(_MAX_STEPS):
        middle = (low + high) / 2
        if not math.isinf(at_high):
            middle = min(high, max(low, high - at_high * (high - low) / (at_high - at_low)))
        value = function(middle)
        moved = min(middle - low, high - middle)
        if value > 0:
            at_high *= _scale(value, at_low) if side > 0 else 1.0
            low, at_low, side = middle, value, 1
        else:
            at_low *= _scale(value, at_high) if side < 0 else 1.0
            high, at_high, side = middle, value, -1
        if moved <= tolerance or not value:
            return middle
    return high


def _scale(value: float, before: float) -> float:
    """By what the value of the other end shrinks, when one end moves twice."""
    scale = 1 - value / before
    return scale if scale > 0 else 0.5
