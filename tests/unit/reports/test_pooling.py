"""What the repeats of one model × config × benchmark have together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.reports.pooling import Pool
from benchfleet.results.read import SampleScores
from benchfleet.testing import sample_cell
from records import record_of

# Four streams at once: 360 answers of 16 tokens in 7.6 s, or in 30.5 s of requests that overlap.
OVERLAPPING = {"overall_score": 47.3, "completion_tokens": 5760, "seconds": 30.5}


def pool_of(benchmark: str, *reported: dict[str, float]) -> Pool:
    pool = Pool()
    for repeat, numbers in enumerate(reported):
        cell = replace(sample_cell(benchmark=benchmark, subset="c4"), repeat=repeat)
        outcome = Outcome(state="success", metrics=OVERLAPPING, reported=numbers)
        record = record_of(cell, state="success", outcome=outcome)
        pool.add(cell, record, lambda record: SampleScores(scores={}))
    return pool


def test_the_speed_of_a_load_point_is_that_of_its_steady_window() -> None:
    speeds = [{"output_tokens_per_second": one, "tokens_per_second": 9.0} for one in (750.0, 760.0)]
    assert pool_of("serving", *speeds).tokens_per_second() == 755.0
    short = pool_of("serving", {"tokens_per_second": 640.0})  # it has no steady window
    assert short.tokens_per_second() == 640.0
    assert pool_of("serving", {}).tokens_per_second() is None


def test_the_speed_of_other_benchmarks_is_by_answer_time() -> None:
    assert pool_of("recall", {}).tokens_per_second() == pytest.approx(5760 / 30.5)


@pytest.mark.parametrize("local", [True, False])
def test_samples_that_are_here_without_scores_are_not_missing(local: bool) -> None:
    """As those of a script that reports one number for all."""
    cell, metrics = sample_cell(), {"overall_score": 0.5, "samples": 2}
    record = record_of(cell, state="success", outcome=Outcome(state="success", metrics=metrics))
    pool = Pool()
    pool.add(cell, record, lambda record: SampleScores(local=local))
    assert pool.has_none == local
