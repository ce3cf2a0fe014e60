"""Student's t distribution, without scipy: a report needs nothing but benchfleet."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

_NORMAL_FROM_FREEDOM = 10_000  # degrees of freedom from which Student's t is read as a normal
_MAX_TERMS = 200  # of the continued fraction, at the most
_MAX_STEPS = 100  # of Newton's method; 5 are usual
_RELATIVE_NOISE = 1e-12  # of the arithmetic


def two_sided_p(t: float, freedom: float) -> float:
    """The chance that Student's t of so many degrees of freedom is at least as far from 0.
    Raises ValueError for less than one."""
    if freedom < 1 - _RELATIVE_NOISE:
        raise ValueError(f"Student's t needs a degree of freedom; {freedom} is none")
    if freedom >= _NORMAL_FROM_FREEDOM:
        return math.erfc(abs(t) / math.sqrt(2))
    square = t * t
    if math.isinf(square):
        return 0.0
    return incomplete_beta(
        freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square)
    )


@cache
def t_quantile(confidence: float, freedom: float) -> float:
    """The t that encloses `confidence` of Student's distribution between −t and t. Raises
    ValueError where it is not between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1; {confidence} does not")
    outside = 1 - confidence
    value = NormalDist().inv_cdf((1 + confidence) / 2)  # below the quantile; p is convex from here
    for _ in range(_MAX_STEPS):  # of Newton's method
        step = (two_sided_p(value, freedom) - outside) / (2 * _t_density(value, freedom))
        value += step
        if step <= _RELATIVE_NOISE * value:
            break
    return value


def _t_density(t: float, freedom: float) -> float:
    """Student's density; that of the normal where `two_sided_p` takes the normal."""
    if freedom >= _NORMAL_FROM_FREEDOM:
        return NormalDist().pdf(t)
    logarithm = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    logarithm -= (freedom + 1) / 2 * math.log1p(t * t / freedom)
    return math.exp(logarithm) / math.sqrt(freedom * math.pi)


def incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """I_x(a, b), regularised, with y = 1 − x given for its precision (DLMF 8.17.22)."""
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, y, x)
    value = 1.0
    terms = min(_MAX_TERMS, 40 + int(7 * math.sqrt(max(a, b))))  # more change no digit of a float
    for term in range(terms, 0, -1):
        m = term // 2
        if term % 2:
            weight = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            weight = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        value = 1 + weight / value
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    logarithm += a * math.log(x) + b * math.log(y)
    return math.exp(logarithm) / (a * value)
