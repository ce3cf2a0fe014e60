"""Percentiles by rank, and how far off they may be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

PERCENTILES = (50, 90, 95, 99)
FEWEST = {90: 65, 95: 130, 99: 662}  # values, below which a percentile is flagged
_TAIL = 0.025  # on each side of a 95 % range


def percentile(ordered: Sequence[float], percent: float) -> float:
    """By nearest rank, without interpolation: the value of rank ⌈n·p⌉. `ordered` ascends."""
    rank = math.ceil(round(len(ordered) * percent / 100, 9))
    return ordered[max(1, rank) - 1]


def rank_range(count: int, percent: float) -> tuple[int | None, int | None]:
    """The ranks (from 1) between which the true percentile lies with 95 %, by the binomial
    distribution; None for a side that so few values do not bound."""
    share, below = percent / 100, 0.0
    low: int | None = None
    spread = 10 * math.sqrt(count * share * (1 - share))  # what is further off weighs nothing
    for rank in range(max(0, math.floor(count * share - spread)), count):
        # Before this line `below` is P(X < rank), where X values lie under the percentile.
        at = _binomial(count, rank, share)
        if rank and below <= _TAIL:
            low = rank
        below += at
        if below >= 1 - _TAIL:
            return low, rank + 1
    return low, None


def summary(values: Iterable[float], *, scale: float = 1.0) -> dict[str, Any]:
    """Count, mean, percentiles, and their 95 % ranges, each divided by `scale`; empty without
    values. `flagged` names the percentiles that rest on too few values."""
    ordered = sorted(value / scale for value in values)
    count = len(ordered)
    if not count:
        return {}
    result: dict[str, Any] = {"count": count, "mean": round(math.fsum(ordered) / count, 4)}
    ranges = {}
    for percent in PERCENTILES:
        result[f"p{percent}"] = round(percentile(ordered, percent), 4)
        low, high = rank_range(count, percent)
        ranges[f"p{percent}"] = [
            None if rank is None else round(ordered[rank - 1], 4) for rank in (low, high)
        ]
    flagged = [f"p{percent}" for percent, least in FEWEST.items() if count < least]
    return {**result, "range95": ranges, "flagged": flagged}


def quantiles(values: Iterable[float], *, scale: float = 1.0, points: int = 100) -> list[float]:
    """The values at 0, 1, … 100 % for a cumulative curve; empty without values."""
    ordered = sorted(values)
    if not ordered:
        return []
    last = len(ordered) - 1
    return [round(ordered[round(last * one / points)] / scale, 4) for one in range(points + 1)]


def _binomial(count: int, successes: int, share: float) -> float:
    log = (
        math.lgamma(count + 1)
        - math.lgamma(successes + 1)
        - math.lgamma(count - successes + 1)
        + successes * math.log(share)
        + (count - successes) * math.log1p(-share)
    )
    return math.exp(log)
