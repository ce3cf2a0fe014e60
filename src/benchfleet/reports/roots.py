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
    `tolerance` is absolute. By the Illinois variant of regula falsi (Dowell & Jarratt 1971, BIT 11,
    168-174), with bisection where the function is infinite.
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
            low, at_low = middle, value
            at_high, side = at_high / 2 if side > 0 else at_high, 1
        else:
            high, at_high = middle, value
            at_low, side = at_low / 2 if side < 0 else at_low, -1
        if moved <= tolerance or not value:
            return middle
    return high
