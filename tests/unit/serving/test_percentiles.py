"""Percentiles by rank and their ranges."""

from __future__ import annotations

import random

from benchfleet.serving.percentiles import percentile, rank_range, summary


def test_percentiles_are_values_by_nearest_rank() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, p) for p in (50, 90, 95, 99, 100)] == [50, 90, 95, 99, 100]
    assert percentile([3.0], 99) == 3.0


def test_the_99th_percentile_is_bounded_from_368_values() -> None:
    assert rank_range(367, 99)[1] is None
    assert rank_range(368, 99)[1] == 368
    assert rank_range(662, 99) == (650, 661)


def test_a_range_holds_the_true_percentile_as_often_as_it_says() -> None:
    low, high = rank_range(400, 90)
    assert low
    assert high
    draw = random.Random(1)
    held = 0
    for _ in range(400):
        values = sorted(draw.random() for _ in range(400))
        held += values[low - 1] <= 0.9 <= values[high - 1]
    assert held / 400 > 0.92


def test_few_values_are_flagged() -> None:
    assert summary(range(661))["flagged"] == ["p99"]
    assert summary(range(662))["flagged"] == []
    assert summary(range(100))["flagged"] == ["p95", "p99"]
    assert summary([]) == {}
