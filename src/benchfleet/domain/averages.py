"""The mean of values, and its standard error."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

BOOTSTRAP_STDERR = "bootstrap_stderr"  # of a score that is no mean, in its summary

_RELATIVE_NOISE = 1e-12  # of the largest value: differences below it are noise of the arithmetic


def mean(values: Sequence[float]) -> float:
    """The mean. Raises ValueError where there is nothing to take it of."""
    if not values:
        raise ValueError("no values have no mean")
    if len(values) == 1:
        return float(values[0])
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # of the sum; the mean of floats is one
        return math.fsum(value / len(values) for value in values)


def are_equal(values: Sequence[float]) -> bool:
    """Whether values differ by no more than the noise of the arithmetic."""
    largest = max(map(abs, values), default=0.0)
    return not values or max(values) - min(values) <= _RELATIVE_NOISE * largest


def standard_error(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> float | None:
    """The standard error of the mean; None below two values, or below two clusters.

    Without `clusters` it is s/√n, with s of n − 1 degrees of freedom. With the cluster of each
    value it is √(g/(g − 1) Σ_c (Σ_{i∈c} (x_i − x̄))²)/n over g clusters (arXiv 2411.00640, eq. 4,
    with the usual correction for few clusters). One value a cluster gives s/√n again.
    """
    middle = mean(values) if values else 0.0
    residuals = [value - middle for value in values]
    if clusters is not None:
        sums: dict[Hashable, float] = {}
        for cluster, residual in zip(clusters, residuals, strict=True):
            sums[cluster] = sums.get(cluster, 0.0) + residual
        residuals = [*sums.values()]
    count = len(residuals)
    if count < 2:
        return None
    spread = math.hypot(*residuals)  # no square under- or overflows
    return spread * math.sqrt(count / (count - 1)) / len(values)
