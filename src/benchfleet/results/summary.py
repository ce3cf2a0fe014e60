"""The few numbers of a cell that the ledger keeps and reports show first."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from benchfleet.domain.averages import BOOTSTRAP_STDERR, mean, standard_error
from benchfleet.domain.question_draws import answer_of, draw_metrics
from benchfleet.domain.sample_end import end_metrics

_MAX_NUMBERS, _MAX_NAME_CHARS, _MAX_VALUE = 50, 100, 1e300  # of numbers beside the summary


def summarise(
    score: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    ends: Sequence[str] | None = None,
) -> dict[str, float]:
    """Headline, samples, standard error, tokens, the mean of each measure, and what `ends` tell, as
    `end_metrics`.

    The error is the one that reports show: several answers to a question count as their mean, and
    samples that share a context as one cluster. A headline that is not the mean of its samples has
    the error of the bootstrap, if its benchmark made one. Where the samples have no tokens, seconds
    or measures, those count that the benchmark gives of all answers: sums, and means of measures.

    Raises ValueError where one of them is not a finite number, or is made of what is none.
    """
    values_of_samples = [
        None if value is None else _finite(f"the score of sample {number}", value)
        for number, value in enumerate(score["per_sample"])
    ]
    overall = _finite("the score", score["overall"])
    metrics: dict[str, float] = {"overall_score": overall, "samples": len(records)}
    error = _standard_error(overall, values_of_samples, records, score.get("summary", {}))
    if error is not None:
        metrics["stderr"] = error
    if missing := sum(value is None for value in values_of_samples):
        metrics["unscored"] = missing
    of_all = {name: _finite(name, value) for name, value in score.get("measures", {}).items()}
    for name in ("prompt_tokens", "completion_tokens", "seconds"):
        values = [_finite(name, record.get(name, 0)) for record in records]
        metrics[name] = _finite(name, sum(values)) or of_all.get(name, 0.0)
    measures: dict[str, list[float]] = {}
    for record in records:
        measured = record.get("measures", {})
        if not isinstance(measured, Mapping):
            raise ValueError(f"the measures of a sample are {measured!r:.60}, not numbers by name")
        for name, value in measured.items():
            measures.setdefault(name, []).append(_finite(name, value))
    for name, values in sorted(measures.items()):
        metrics.setdefault(name, mean(values))
    metrics = of_all | metrics
    if ends:
        metrics |= end_metrics(ends, values_of_samples, [answer_of(record) for record in records])
    metrics |= draw_metrics(records, values_of_samples)
    return metrics


def averaged_samples(metrics: Mapping[str, Any], reported: Mapping[str, Any]) -> int:
    """Of how many samples' scores the headline of a summary is the mean, as far as it tells; 0
    where it is no such mean."""
    samples, unscored = (_count(metrics.get(name)) for name in ("samples", "unscored"))
    error = metrics.get("stderr")
    of_samples = error is not None and error != reported.get(BOOTSTRAP_STDERR)
    scored = samples - unscored
    return scored if of_samples or scored == 1 else 0


def is_mean(headline: float, scores: Collection[float]) -> bool:
    """Whether a headline is the mean of these scores."""
    return bool(scores) and math.isclose(mean([*scores]), headline, rel_tol=1e-6, abs_tol=1e-9)


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


def _standard_error(
    overall: float,
    scores: Sequence[float | None],
    records: Sequence[Mapping[str, Any]],
    reported: Mapping[str, Any],
) -> float | None:
    """The standard error of the headline; None if it is unknown."""
    by_key: dict[Hashable, list[float]] = {}
    contexts: dict[Hashable, Hashable] = {}
    for position, (value, record) in enumerate(zip(scores, records, strict=False)):
        if value is not None:
            key = record.get("question") or record.get("id", position)
            by_key.setdefault(key, []).append(value)
            contexts[key] = record.get("context") or ("", key)
    values = [mean(some) for some in by_key.values()]
    error = reported.get(BOOTSTRAP_STDERR)
    if is_mean(overall, values):
        error = standard_error(values, [*contexts.values()])
    return float(error) if isinstance(error, (int, float)) and math.isfinite(error) else None


def _count(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0


def _finite(what: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{what} is {value!r:.60}, not a finite number")
    return number
