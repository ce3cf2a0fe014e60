"""The error of a score that is no mean of its samples' scores, by the bootstrap."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from benchfleet.domain.averages import BOOTSTRAP_STDERR

from .records import Record, Score

RESAMPLES = 999
CONFIDENCE = 0.95
MAX_SECONDS = 60.0  # of CPU, of all resamples; what takes longer gets no error
STDERR, LOW, HIGH = BOOTSTRAP_STDERR, "bootstrap_low", "bootstrap_high"  # in a score's summary


def bootstrap(
    statistic: Callable[[Sequence[Any]], float],
    items: Sequence[Any],
    *,
    expected: float | None = None,
) -> dict[str, float]:
    """The standard error of a statistic of independent items, and its 95 % interval.

    The interval is the bias-corrected and accelerated one (BCa; Efron, J. Am. Stat. Assoc. 1987,
    82, 171-185) over 999 resamples, by scipy. The same items give the same numbers. Empty for less
    than three items, for a statistic that does not vary or fails, or is not `expected` over all
    items, or is too slow.
    """
    if len(items) < 3 or find_spec("scipy") is None:
        return {}
    began = time.thread_time()
    try:
        value = statistic(items)
    except Exception:  # noqa: BLE001 - a benchmark's own code, which made the score already
        return {}
    if expected is not None and not _is_close(value, expected):
        return {}
    if (time.thread_time() - began) * (RESAMPLES + len(items)) > MAX_SECONDS:
        return {}
    from scipy import stats

    def of_indices(indices: Any) -> float:
        return float(statistic([items[int(index)] for index in indices]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of resamples that are degenerate
        try:
            result = stats.bootstrap(
                (range(len(items)),),
                of_indices,
                n_resamples=RESAMPLES,
                confidence_level=CONFIDENCE,
                method="BCa",
                vectorized=False,
                rng=0,
            )
        except Exception:  # noqa: BLE001 - a resample that the benchmark cannot score
            return {}
    interval = result.confidence_interval
    numbers = {STDERR: result.standard_error, LOW: interval.low, HIGH: interval.high}
    values = {name: float(number) for name, number in numbers.items()}
    if not all(map(math.isfinite, values.values())) or values[STDERR] == 0:
        return {}
    return values


def error_of(
    statistic: Callable[[Sequence[Any]], float],
    samples: Sequence[Any],
    *,
    questions: Sequence[Hashable],
    score: Score,
) -> dict[str, float]:
    """As `bootstrap`, of a statistic that made the headline of a score from its samples; empty if
    the headline is the mean of the samples' scores. `questions` has the question, or the context,
    of each sample: all samples of one are drawn together."""
    unscored = {*score.unscored}
    scores = [float(one) for n, one in enumerate(score.per_sample) if n not in unscored]
    if scores and _is_close(math.fsum(scores) / len(scores), score.overall):
        return {}
    groups: dict[Hashable, list[Any]] = {}
    for question, sample in zip(questions, samples, strict=True):
        groups.setdefault(question, []).append(sample)

    def of_groups(chosen: Sequence[Sequence[Any]]) -> float:
        return statistic([sample for group in chosen for sample in group])

    return bootstrap(of_groups, [*groups.values()], expected=score.overall)


def _is_close(value: float, other: float) -> bool:
    return math.isclose(value, other, rel_tol=1e-6, abs_tol=1e-9)


def with_error(
    score: Score, score_of: Callable[[Sequence[Record]], Score], records: Sequence[Record]
) -> Score:
    """The score with the bootstrap's error in its summary, if its headline is not the mean of its
    samples' scores."""
    if not score.per_sample:
        return score
    error = error_of(
        lambda chosen: score_of(chosen).overall,
        records,
        questions=[record.context or record.question or record.id for record in records],
        score=score,
    )
    return replace(score, summary={**error, **score.summary}) if error else score


def scaled(numbers: Mapping[str, Any], factor: float) -> dict[str, float]:
    """The same numbers of a score that is multiplied by a factor, which may be negative; empty if
    there are none."""
    if STDERR not in numbers:
        return {}
    low, high = sorted((numbers[LOW] * factor, numbers[HIGH] * factor))
    return {STDERR: numbers[STDERR] * abs(factor), LOW: low, HIGH: high}
