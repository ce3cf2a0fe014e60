"""Tango's score interval of the difference of two paired proportions."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

_BISECTIONS = 40


@cache
def paired_interval(
    gains: int, losses: int, n: int, confidence: float = 0.95
) -> tuple[float, float]:
    """The interval of the share of gains less that of losses among n pairs (Tango 1998, Statistics
    in Medicine 17, 891-908). It keeps its level with few flips, and with none."""
    return score_interval(gains, losses, n, NormalDist().inv_cdf((1 + confidence) / 2))


def score_interval(gains: float, losses: float, n: float, z: float) -> tuple[float, float]:
    """The same at a normal quantile; counts need not be whole numbers."""
    return -_upper(losses, gains, n, z), _upper(gains, losses, n, z)


def _upper(gains: float, losses: float, n: float, z: float) -> float:
    low, high = (gains - losses) / n, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _score(middle, gains, losses, n) > -z:
            low = middle
        else:
            high = middle
    return high


def _score(difference: float, gains: float, losses: float, n: float) -> float:
    """The score statistic of a true difference, with the likeliest share of losses under it."""
    linear = (2 * n - gains + losses) * difference - gains - losses
    root = math.sqrt(max(0.0, linear**2 + 8 * n * losses * difference * (1 - difference)))
    share = (root - linear) / (4 * n)
    variance = n * (2 * share + difference * (1 - difference))
    distance = gains - losses - n * difference
    if variance <= 0:
        return -math.inf if distance < 0 else 0.0
    return distance / math.sqrt(variance)
