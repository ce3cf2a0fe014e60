"""The difference that a paired t-test finds in 80 % of repetitions, and the samples that it needs.

The power is that of the noncentral t distribution, so few samples and corrected tests have it too.
"""

from __future__ import annotations

import math
from functools import cache

from .statistics import SIGNIFICANCE
from .students_t import t_quantile

_POWER = 0.8  # the chance that a minimum detectable effect is found
_NODES = 200  # of the integral over the standard deviation that a test estimates
_REACH = 8  # standard deviations of that estimate on each side
_BISECTIONS = 40
_NORMAL_FROM_FREEDOM = 10_000  # degrees of freedom from which the estimate counts as exact


def detectable(stderr: float, freedom: float, *, family: int = 1) -> float:
    """The minimum detectable effect: a true difference of this size is significant (p < 0.05,
    two-sided) in 80 % of repetitions (arXiv 2411.00640, section 5).

    `family` is the number of comparisons that Holm's correction covers. Holm's strictest step, 5 %
    over the family, gives the power at least. Raises ValueError for less than one degree of
    freedom.
    """
    return _factor(math.floor(freedom + 1e-9), family) * stderr


def samples_to_detect(effect: float, deviation: float, *, is_binary: bool = False) -> int:
    """How many samples make a difference of `effect` detectable in a single comparison, if the
    differences of single samples have this standard deviation. Scores of 0 and 1 (`is_binary`) take
    2/effect more: McNemar's test is exact, and its counts are whole. Raises ValueError if the
    effect is not above 0."""
    if effect <= 0:
        raise ValueError(f"an effect is above 0; {effect:g} is not")
    with_known_deviation = (_factor(_NORMAL_FROM_FREEDOM, 1) * deviation / effect) ** 2
    count = max(2, math.ceil(with_known_deviation))
    while detectable(deviation / math.sqrt(count), count - 1) > effect:
        count += 1
    return count + (math.ceil(2 / effect) if is_binary else 0)


@cache
def _factor(freedom: int, family: int) -> float:
    """The detectable effect in standard errors."""
    critical = t_quantile(1 - SIGNIFICANCE / family, freedom)
    low, high = 0.0, 2 * critical + 2  # finds more than 80 % with any degrees of freedom
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _power(middle, critical, freedom) < _POWER:
            low = middle
        else:
            high = middle
    return high


def _power(effect: float, critical: float, freedom: int) -> float:
    """The chance that noncentral t is above `critical`: ∫ Φ(effect − critical·u) f(u) du, where u
    is the estimated deviation over the true one, √(χ²/freedom)."""
    if freedom >= _NORMAL_FROM_FREEDOM:
        return _normal(effect - critical)
    return math.fsum(weight * _normal(effect - critical * u) for u, weight in _deviations(freedom))


@cache
def _deviations(freedom: int) -> tuple[tuple[float, float], ...]:
    """Midpoints of √(χ²/freedom), and the chance of each."""
    reach = _REACH / math.sqrt(2 * freedom)
    start, end = max(0.0, 1 - reach), 1 + reach
    points = [start + (end - start) * (node + 0.5) / _NODES for node in range(_NODES)]
    logarithms = [(freedom - 1) * math.log(u) - freedom * u * u / 2 for u in points]
    highest = max(logarithms)
    heights = [math.exp(value - highest) for value in logarithms]
    total = math.fsum(heights)
    return tuple((u, height / total) for u, height in zip(points, heights, strict=True))


def _normal(value: float) -> float:
    return math.erfc(-value / math.sqrt(2)) / 2
