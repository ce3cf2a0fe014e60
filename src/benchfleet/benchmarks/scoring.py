"""Turning the scores of single samples into what a `Score` tells."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from benchfleet.domain import averages

from .base import Score


def mean_measures(measured: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each measure over the answers that have it, whatever their order."""
    by_name: dict[str, list[float]] = {}
    for measures in measured:
        for name, value in measures.items():
            by_name.setdefault(name, []).append(value)
    return {name: mean(values) for name, values in by_name.items()}


def averaged(
    per_sample: Sequence[float],
    *,
    tasks: Mapping[str, float] | None = None,
    summary: Mapping[str, float] | None = None,
    unparsed: Sequence[int] = (),
) -> Score:
    """A `Score` whose headline is the mean, with `samples` in its summary.

    Raises ValueError where there is no sample at all.
    """
    return Score(
        overall=mean(per_sample),
        per_sample=per_sample,
        tasks=tasks or {},
        summary={"samples": len(per_sample), **(summary or {})},
        unparsed=unparsed,
    )


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean. Raises ValueError where there is nothing to average."""
    if not values:
        raise ValueError("no answers to score; ask for at least one sample")
    return averages.mean(values)


def mean_by(name: str, parts: Sequence[Hashable], per_sample: Sequence[float]) -> dict[str, float]:
    """The mean of each part as ``<name>_<part>``, in the order in which parts first come."""
    grouped: dict[Hashable, list[float]] = {}
    for part, value in zip(parts, per_sample, strict=True):
        grouped.setdefault(part, []).append(value)
    return {f"{name}_{part}": mean(values) for part, values in grouped.items()}
