"""The bootstrap of a score that is no mean."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from benchfleet.benchmarks.bootstrap import (
    HIGH,
    LOW,
    RESAMPLES,
    STDERR,
    bootstrap,
    error_of,
    scaled,
    with_error,
)
from benchfleet.benchmarks.lm_eval.score import scored
from benchfleet.benchmarks.records import Record, Score

RNG = random.Random(2)
VALUES = [RNG.lognormvariate(0, 1) for _ in range(41)]


def test_the_interval_is_that_of_scipy() -> None:
    found = bootstrap(statistics.median, VALUES)
    expected = stats.bootstrap(
        (VALUES,), statistics.median, n_resamples=RESAMPLES, method="BCa", vectorized=False, rng=0
    )
    assert found[STDERR] == pytest.approx(float(expected.standard_error))
    interval = expected.confidence_interval
    assert (found[LOW], found[HIGH]) == pytest.approx((float(interval.low), float(interval.high)))
    assert bootstrap(statistics.median, VALUES) == found


def test_the_error_of_a_mean_is_close_to_its_formula() -> None:
    found = bootstrap(statistics.fmean, VALUES)
    assert found[STDERR] == pytest.approx(float(stats.sem(VALUES)), rel=0.1)


@pytest.mark.slow
def test_the_interval_holds_the_truth_about_19_times_out_of_20() -> None:
    """Of the standard deviation, whose distribution is skewed."""

    def deviation(items: object) -> float:  # 60,000 times; `statistics` takes exact fractions
        return float(np.std(items))  # type: ignore[call-overload]

    rng, held = random.Random(7), 0
    for _ in range(60):
        found = bootstrap(deviation, [rng.gauss(0, 1) for _ in range(60)])
        held += found[LOW] <= 1 <= found[HIGH]
    assert held >= 50


def test_what_does_not_vary_or_fails_has_no_error() -> None:
    def failing(items: object) -> float:
        raise ZeroDivisionError

    assert bootstrap(statistics.median, [1.0, 2.0]) == {}
    assert bootstrap(statistics.median, [1.0] * 9) == {}
    assert bootstrap(failing, VALUES) == {}
    assert bootstrap(lambda items: math.nan, VALUES) == {}


def test_a_statistic_that_did_not_make_the_score_has_no_error() -> None:
    def error(overall: float) -> dict[str, float]:
        score = Score(overall=overall)
        return error_of(statistics.median, VALUES, questions=range(len(VALUES)), score=score)

    assert error(statistics.median(VALUES)) == bootstrap(statistics.median, VALUES)
    assert error(statistics.median(VALUES) + 0.01) == {}


def test_a_negative_scale_turns_the_interval_around() -> None:
    numbers = {STDERR: 1.0, LOW: 2.0, HIGH: 5.0}
    assert scaled(numbers, -2.0) == {STDERR: 2.0, LOW: -10.0, HIGH: -4.0}
    assert scaled({"metric": "f1"}, 2.0) == {}


def test_a_metric_of_lm_eval_that_is_no_mean_gets_an_error() -> None:
    pairs = [(n % 3 == 0, n % 2 == 0) for n in range(30)]

    def f1(items: object) -> float:
        both = sum(a and b for a, b in items)  # type: ignore[attr-defined]
        either = sum(a + b for a, b in items)  # type: ignore[attr-defined]
        return 2 * both / either if either else 0.0

    samples = [{"doc_id": n, "filter": "none", "f1": pair} for n, pair in enumerate(pairs)]
    results = {
        "results": {"t": {"f1,none": f1(pairs)}},
        "higher_is_better": {"t": {"f1": True}},
        "samples": {"t": samples},
        "configs": {"t": {}},
        "versions": {"t": 1.0},
        "n-shot": {"t": 0},
    }
    score = scored(results, "t", aggregations={"f1": f1})
    assert score.per_sample == []
    assert score.summary[LOW] < score.overall < score.summary[HIGH]
    assert STDERR not in scored(results, "t").summary


def test_the_samples_of_a_context_are_drawn_together() -> None:
    """As in the standard error of a mean: samples of one context resemble each other."""

    def score_of(records: Sequence[Record]) -> Score:
        values = [record.measures["value"] for record in records]
        return Score(overall=statistics.median(values), per_sample=values)

    def records_of(contexts: int, copies: int) -> list[Record]:
        return [
            Record(
                index=copies * n + copy,
                id=f"{n}.{copy}",
                columns={},
                predicted_answer="",
                measures={"value": VALUES[n]},
                context=f"c{n}" if copies > 1 else "",
            )
            for n in range(contexts)
            for copy in range(copies)
        ]

    alone, copied = records_of(41, 1), records_of(41, 3)
    expected = with_error(score_of(alone), score_of, alone).summary[STDERR]
    found = with_error(score_of(copied), score_of, copied).summary[STDERR]
    assert found == pytest.approx(expected)
