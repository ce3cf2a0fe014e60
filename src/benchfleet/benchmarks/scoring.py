"""Turning the scores of single samples into what a `Score` tells."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

from .base import Score


def averaged(
    per_sample: Sequence[float],
    *,
    tasks: Mapping[str, float] | None = None,
    summary: Mapping[str, float] | None = None,
    unparsed: Sequence[int] = (),
) -> Score:
    """A `Score` whose headline is the mean, with `samples` and `stderr` (s/√n) in its summary.

    One sample has no standard error. Raises ValueError where there is no sample at all.
    """
    overall, count = mean(per_sample), len(per_sample)
    spread: dict[str, float] = {"samples": count}
    if count > 1:
        squares = math.fsum((value - overall) ** 2 for value in per_sample)
        spread["stderr"] = math.sqrt(squares / (count - 1) / count)
    return Score(
        overall=overall,
        per_sample=per_sample,
        tasks=tasks or {},
        summary={**spread, **(summary or {})},
        unparsed=unparsed,
    )


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean. Raises ValueError where there is nothing to average."""
    if not values:
        raise ValueError("no answers to score; ask for at least one sample")
    return math.fsum(values) / len(values)


def mean_by(name: str, parts: Sequence[Hashable], per_sample: Sequence[float]) -> dict[str, float]:
    """The mean of each part as ``<name>_<part>``, in the order in which parts first come."""
    grouped: dict[Hashable, list[float]] = {}
    for part, value in zip(parts, per_sample, strict=True):
        grouped.setdefault(part, []).append(value)
    return {f"{name}_{part}": mean(values) for part, values in grouped.items()}
