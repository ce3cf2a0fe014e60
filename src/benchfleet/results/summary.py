"""The few numbers of a cell that the ledger keeps and reports show first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchfleet.domain.question_draws import answer_of, by_question, draw_metrics
from benchfleet.domain.sample_end import end_metrics

_MAX_NUMBERS, _MAX_NAME_CHARS, _MAX_VALUE = 50, 100, 1e300  # of numbers beside the summary


def summarise(
    score: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    ends: Sequence[str] | None = None,
) -> dict[str, float]:
    """Headline, samples, standard error s/√n, tokens, the mean of each measure, and what `ends`
    tell, as `end_metrics`.

    Raises ValueError where one of them is not a finite number, or is made of what is none.
    """
    overall = _finite("the score", score["overall"])
    values_of_samples = [
        None if value is None else _finite("a sample's score", value)
        for value in score["per_sample"]
    ]
    scores = [value for value in values_of_samples if value is not None]
    metrics: dict[str, float] = {"overall_score": overall, "samples": len(records)}
    if len(scores) > 1:
        questions = by_question(records)
        if questions and len(values_of_samples) == len(scores) == len(
            records
        ):  # answers are no samples
            scores = [_mean([scores[i] for i in some]) for some in questions.values()]
        if len(scores) > 1:
            metrics["stderr"] = _standard_error(scores)
    if missing := sum(value is None for value in values_of_samples):
        metrics["unscored"] = missing
    for name in ("prompt_tokens", "completion_tokens", "seconds"):
        values = [_finite(name, record.get(name, 0)) for record in records]
        metrics[name] = _finite(name, sum(values))
    measures: dict[str, list[float]] = {}
    for record in records:
        measured = record.get("measures", {})
        if not isinstance(measured, Mapping):
            raise ValueError(f"the measures of a sample are {measured!r:.60}, not numbers by name")
        for name, value in measured.items():
            measures.setdefault(name, []).append(_finite(name, value))
    for name, values in sorted(measures.items()):
        metrics.setdefault(name, _mean(values))
    if ends:
        metrics |= end_metrics(ends, values_of_samples, [answer_of(record) for record in records])
    metrics |= draw_metrics(records, values_of_samples)
    return metrics


def numbers_and_truths(reported: Mapping[str, Any]) -> dict[str, float | bool]:
    """What a benchmark reported that gates can weigh, as far as a ledger should keep it."""
    scalars = {
        name: value
        for name, value in reported.items()
        if isinstance(value, (bool, int, float))
        and len(name) <= _MAX_NAME_CHARS
        and abs(value) <= _MAX_VALUE
    }
    return dict(list(scalars.items())[:_MAX_NUMBERS])


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # of the sum; the mean of floats is one
        return math.fsum(value / len(values) for value in values)


def _standard_error(scores: Sequence[float]) -> float:
    """s/√n, of scores brought below one first: their squares may be beyond what a float holds."""
    largest = max(map(abs, scores)) or 1.0
    scaled = [score / largest for score in scores]
    mean = math.fsum(scaled) / len(scaled)
    squares = math.fsum((value - mean) ** 2 for value in scaled)
    return largest * math.sqrt(squares / (len(scaled) - 1) / len(scaled))


def _finite(what: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{what} of {value!r:.60} is not a finite number")
    return number
