"""The few numbers of a cell that the ledger keeps and reports show first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def summarise(score: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Headline, samples, standard error s/√n, tokens and the mean of each measure.

    Raises ValueError where the headline or a sample's score is not a finite number.
    """
    overall = _finite(score["overall"])
    scores = [_finite(value) for value in score["per_sample"]]
    metrics: dict[str, float] = {"overall_score": overall, "samples": len(records)}
    if len(scores) > 1:
        mean = math.fsum(scores) / len(scores)
        squares = math.fsum((value - mean) ** 2 for value in scores)
        metrics["stderr"] = math.sqrt(squares / (len(scores) - 1) / len(scores))
    for name in ("prompt_tokens", "completion_tokens", "seconds"):
        metrics[name] = math.fsum(record.get(name, 0) for record in records)
    measures: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.get("measures", {}).items():
            measures.setdefault(name, []).append(value)
    for name, values in sorted(measures.items()):
        metrics[name] = math.fsum(values) / len(values)
    return metrics


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"a score of {value!r} is not a finite number")
    return number
