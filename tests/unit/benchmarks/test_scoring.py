"""Means, their standard errors, and the means of parts."""

from __future__ import annotations

import pytest

from benchfleet.benchmarks.scoring import averaged, mean, mean_by


def test_the_headline_is_the_mean() -> None:
    values = [1.0, 0.0, 0.5, 1.0, 0.25]
    score = averaged(values)
    assert score.overall == pytest.approx(0.55)
    assert score.summary == {"samples": 5}
    assert score.per_sample == values


def test_tasks_and_what_else_is_worth_keeping_are_passed_on() -> None:
    score = averaged([1.0, 1.0], tasks={"a": 0.5}, summary={"chance": 0.1})
    assert score.tasks == {"a": 0.5}
    assert score.summary == {"samples": 2, "chance": 0.1}


def test_nothing_to_score_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="no answers to score; ask for at least one sample"):
        averaged([])


def test_a_mean_does_not_drift_with_many_values() -> None:
    assert mean([0.1] * 10) == 0.1


def test_parts_are_named_and_come_in_their_first_order() -> None:
    parts = mean_by("depth", [0.5, 0.1, 0.5], [1.0, 0.0, 0.0])
    assert list(parts.items()) == [("depth_0.5", 0.5), ("depth_0.1", 0.0)]
