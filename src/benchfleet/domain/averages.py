"""The mean of values, and its standard error."""

from __future__ import annotations

import math
from collections import Counter
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
    value it is √(Σ_c (Σ_{i∈c} (x_i − x̄))²/(1 − n_c/n))/n over clusters of n_c values: arXiv
    2411.00640, eq. 4, with the CR2 correction for few clusters (Bell & McCaffrey 2002, Survey
    Methodology 28, 169-181). One value a cluster gives s/√n again.
    """
    middle = mean(values) if values else 0.0
    residuals, count = [value - middle for value in values], len(values)
    if clusters is not None:
        sizes = Counter(clusters)
        sums = dict.fromkeys(sizes, 0.0)
        for cluster, residual in zip(clusters, residuals, strict=True):
            sums[cluster] += residual
        if len(sums) < 2:
            return None
        scaled = [total / math.sqrt(1 - sizes[one] / count) for one, total in sums.items()]
        return math.hypot(*scaled) / count
    if count < 2:
        return None
    spread = math.hypot(*residuals)  # no square under- or overflows
    return spread * math.sqrt(count / (count - 1)) / count


def cluster_freedom(clusters: Sequence[Hashable]) -> float:
    """The degrees of freedom of a mean's clustered error, from the cluster of each value: clusters
    less one where all have one size, and fewer where some are larger (Bell & McCaffrey 2002)."""
    sizes = Counter(clusters)
    if len({*sizes.values()}) == 1:
        return len(sizes) - 1
    shares = [size / len(clusters) for size in sizes.values()]
    pulls = [share**2 / (1 - share) for share in shares]
    squares = math.fsum(share**2 for share in shares)
    return 1 / (squares + math.fsum(pulls) ** 2 - math.fsum(pull**2 for pull in pulls))
