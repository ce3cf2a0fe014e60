"""Samples that failed for good count as wrong."""

from __future__ import annotations

from benchfleet.benchmarks.base import Score
from benchfleet.slot.failed_samples import with_failed_samples


def test_a_failed_sample_counts_as_wrong_in_the_mean() -> None:
    score = with_failed_samples(Score(overall=0.75, per_sample=[1.0, 1.0, 0.0, 1.0]), [1])
    assert (score.overall, list(score.per_sample)) == (0.5, [1.0, 0.0, 0.0, 1.0])


def test_where_less_is_better_a_failed_sample_has_the_worst_score() -> None:
    score = with_failed_samples(Score(overall=-2.0, per_sample=[-1.0, -3.0]), [0])
    assert (score.overall, list(score.per_sample)) == (-3.0, [-3.0, -3.0])


def test_a_headline_that_is_no_mean_stays() -> None:
    score = with_failed_samples(Score(overall=0.9, per_sample=[1.0, 0.0]), [0])
    assert (score.overall, list(score.per_sample)) == (0.9, [0.0, 0.0])


def test_without_failures_nothing_changes() -> None:
    score = Score(overall=1.0, per_sample=[1.0])
    assert with_failed_samples(score, []) is score
