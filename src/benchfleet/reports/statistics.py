"""Standard errors, paired differences and Holm's correction, as pure functions.

The methods are those of "Adding Error Bars to Evals" (arXiv 2411.00640): a mean's standard error
is s/√n over its samples, and two configs are compared by the differences of the samples that both
answered, which takes out what makes a sample hard for both.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

CONFIDENCE = 0.95
SIGNIFICANCE = 1 - CONFIDENCE

_NORMAL_FROM_FREEDOM = 10_000  # degrees of freedom from which Student's t is read as a normal
_MAX_TERMS = 200  # of the continued fraction; it needs about √(degrees of freedom)
_RELATIVE_NOISE = 1e-12  # of the largest score: differences below it are noise of the arithmetic

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The mean of paired differences, and how far it is to be trusted."""

    n: int  # samples that both sides have
    difference: float | None  # ours less the baseline's; None where n is 0
    stderr: float | None = None  # None where n is below 2
    interval: tuple[float, float] | None = None  # 95 %, two-sided; None where s is unknown or 0
    p_value: float | None = None  # two-sided; None where n is below 2
    adjusted_p: float | None = None  # after Holm's correction, where one was made
    sure: bool = field(init=False)  # p, adjusted where it was, is below 5 %

    def __post_init__(self) -> None:
        p = self.p_value if self.adjusted_p is None else self.adjusted_p
        object.__setattr__(self, "sure", p is not None and p < SIGNIFICANCE)

    @property
    def significantly_higher(self) -> bool:
        """Ours is above the baseline, and sure to be."""
        return self.sure and self.difference is not None and self.difference > 0

    @property
    def significantly_lower(self) -> bool:
        """Ours is below the baseline, and sure to be."""
        return self.sure and self.difference is not None and self.difference < 0

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**values, "interval": list(self.interval) if self.interval else None}


def mean(values: Sequence[float]) -> float:
    """The mean. Raises ValueError where there is nothing to take it of."""
    if not values:
        raise ValueError("no values have no mean")
    return math.fsum(values) / len(values)


def standard_error(values: Sequence[float]) -> float | None:
    """s/√n with s of n − 1 degrees of freedom; None below two values."""
    if len(values) < 2:
        return None
    middle = mean(values)
    spread = math.hypot(*(value - middle for value in values))  # no square under- or overflows
    return spread / math.sqrt((len(values) - 1) * len(values))


def paired_difference(ours: Mapping[_Key, float], baseline: Mapping[_Key, float]) -> Difference:
    """Ours less the baseline's over the samples that both have.

    The interval and p are Student's, with n − 1 degrees of freedom. Where all differences are
    equal, s = 0 says nothing of what other samples would show; p is then the sign test's,
    2^(1−n), or 1 where they are all 0.
    """
    shared = [key for key in ours if key in baseline]
    if not shared:
        return Difference(n=0, difference=None)
    differences = [ours[key] - baseline[key] for key in shared]
    middle, n = mean(differences), len(shared)
    stderr = standard_error(differences)
    if stderr is None:
        return Difference(n=n, difference=middle)
    noise = _RELATIVE_NOISE * max(max(abs(ours[key]), abs(baseline[key])) for key in shared)
    if stderr == 0 or max(differences) - min(differences) <= noise:
        equal = abs(middle) <= noise
        p_value = 1.0 if equal else 2.0 ** (1 - n)
        return Difference(n=n, difference=0.0 if equal else middle, stderr=0.0, p_value=p_value)
    reach = t_quantile(CONFIDENCE, n - 1) * stderr
    return Difference(
        n=n,
        difference=middle,
        stderr=stderr,
        interval=(middle - reach, middle + reach),
        p_value=two_sided_p(middle / stderr, n - 1),
    )


def holm(p_values: Sequence[float], *, family: int | None = None) -> list[float]:
    """Each p-value adjusted for the others (Holm 1979, Scand. J. Statist. 6, 65-70).

    Calling those below 5 % significant has a family-wise error rate of at most 5 %. `family` is the
    number of comparisons if not all of them are given: the others count as not significant.
    Raises ValueError if it is less than the number given.
    """
    size = len(p_values) if family is None else family
    if size < len(p_values):
        raise ValueError(f"a family of {size} cannot hold {len(p_values)} comparisons")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (size - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def two_sided_p(t: float, freedom: int) -> float:
    """The chance that Student's t of so many degrees of freedom is at least as far from 0.
    Raises ValueError for less than one."""
    if freedom < 1:
        raise ValueError(f"Student's t needs a degree of freedom; {freedom} is none")
    if freedom >= _NORMAL_FROM_FREEDOM:
        return math.erfc(abs(t) / math.sqrt(2))
    square = t * t
    if math.isinf(square):
        return 0.0
    return _incomplete_beta(
        freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square)
    )


@cache
def t_quantile(confidence: float, freedom: int) -> float:
    """The t that encloses `confidence` of Student's distribution between −t and t. Raises
    ValueError where it is not between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1; {confidence} does not")
    outside = 1 - confidence
    low, high = 0.0, 1.0
    while two_sided_p(high, freedom) > outside:
        low, high = high, high * 2
    for _ in range(60):  # halvings: down to the last bit of a float
        middle = (low + high) / 2
        if two_sided_p(middle, freedom) > outside:
            low = middle
        else:
            high = middle
    return high


def _incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """I_x(a, b), regularised, with y = 1 − x given for its precision (DLMF 8.17.22)."""
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, y, x)
    value = 1.0
    for term in range(_MAX_TERMS, 0, -1):
        m = term // 2
        if term % 2:
            weight = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            weight = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        value = 1 + weight / value
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    logarithm += a * math.log(x) + b * math.log(y)
    return math.exp(logarithm) / (a * value)
