"""The score of a cell of which some samples failed for good: these count as wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from benchfleet.benchmarks.base import Score


def with_failed_samples(score: Score, failed: Sequence[int]) -> Score:
    """The score with 0 for the samples at the positions `failed`, or with the worst score of all if
    that is below 0. They stay in the denominator of a mean."""
    if not failed or not score.per_sample:
        return score
    before = list(score.per_sample)
    lowest = min(0.0, *before)
    positions = frozenset(failed)
    after = [lowest if n in positions else value for n, value in enumerate(before)]
    is_mean = math.isclose(score.overall, _mean(before), rel_tol=1e-9, abs_tol=1e-12)
    return replace(score, overall=_mean(after) if is_mean else score.overall, per_sample=after)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
