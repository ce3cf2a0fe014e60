"""Tango's score interval of the difference of two paired proportions, and pairs in clusters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache, lru_cache
from statistics import NormalDist

from benchfleet.domain.averages import mean

from .roots import find_root

_TOLERANCE = 1e-9  # of the last step; the root is then right to about 1e-13


@cache
def paired_interval(
    gains: float, losses: float, n: float, confidence: float = 0.95
) -> tuple[float, float]:
    """The interval of the share of gains less that of losses among n pairs (Tango 1998, Statistics
    in Medicine 17, 891-908). It keeps its level with few flips, and with none. Counts need not be
    whole numbers, as those over a design effect are not."""
    return score_interval(gains, losses, n, NormalDist().inv_cdf((1 + confidence) / 2))


def score_interval(gains: float, losses: float, n: float, z: float) -> tuple[float, float]:
    """The same at a normal quantile."""
    return -upper_end(losses, gains, n, z), upper_end(gains, losses, n, z)


@lru_cache(maxsize=10_000)  # each interval of a suite asks for those of its parts at 95 %
def upper_end(gains: float, losses: float, n: float, z: float) -> float:
    """The upper end of that interval."""
    step = z * z / (n + z * z) + z * math.sqrt(gains + losses) / n
    return find_root(
        lambda difference: _score(difference, gains, losses, n) + z,
        ((gains - losses) / n, z),
        step,
        1.0,
        tolerance=_TOLERANCE,
    )


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


def design_effect(differences: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """By how much clusters inflate the variance of the mean of differences of 0, 1 and −1: that of
    cluster sums over that of independent pairs (Rao & Scott 1992, Biometrics 48, 577-585).

    Few flips say little of how they cluster, so both variances count one more cluster of the
    typical size, whose pairs all flip together. Counts over the result are as good as independent.
    It is between 1 and the typical size, Σm²/Σm of the clusters' sizes m, and 1 for clusters of
    one. Raises ZeroDivisionError below two clusters.
    """
    middle = mean(differences)
    sums: dict[Hashable, float] = {}
    for cluster, difference in zip(clusters, differences, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + difference - middle
    n, count = len(differences), len(sums)
    size = sum(members**2 for members in Counter(clusters).values()) / n
    together = math.fsum(value**2 for value in sums.values()) + size**2
    alone = math.fsum((difference - middle) ** 2 for difference in differences) + size
    effect = together / alone * (count / (count - 1)) / (n / (n - 1))
    return min(size, max(1.0, effect))
