"""Tests and intervals that hold at every look."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.reports.anytime import anytime_difference, log_wealth, paired_units

ALPHA = 0.05
RUNS, SAMPLES = 300, 200


def coin(rng: random.Random) -> float:
    """Two configs that answer half of the questions correctly."""
    return float((rng.random() < 0.5) - (rng.random() < 0.5))


def rare_losses(rng: random.Random) -> float:
    """Mean 0: a seldom large loss against many small gains."""
    return -1.0 if rng.random() < 0.05 else 0.05 / 0.95


def rare_gains(rng: random.Random) -> float:
    """Mean 0: a seldom large gain against many small losses."""
    return 1.0 if rng.random() < 0.05 else -0.05 / 0.95


def graded(rng: random.Random) -> float:
    """Two configs with graded scores of the same distribution."""
    return rng.betavariate(2, 5) - rng.betavariate(2, 5)


def first_rejection(
    draw: Callable[..., float], rng: random.Random, samples: int = SAMPLES
) -> int | None:
    """After how many samples somebody who looks after each is sure; None for never."""
    counts: Counter[float] = Counter()
    for number in range(1, samples + 1):
        counts[draw(rng)] += 1
        if log_wealth(counts) >= -math.log(ALPHA):
            return number
    return None


@pytest.mark.slow
@pytest.mark.parametrize("draw", [coin, rare_losses, rare_gains])
def test_equal_configs_are_seldom_distinguished_by_looks_after_every_sample(
    draw: Callable[..., float],
) -> None:
    rng = random.Random(7)
    rejected = [first_rejection(draw, rng) is not None for _ in range(RUNS)]
    assert sum(rejected) / RUNS <= ALPHA


@pytest.mark.slow
def test_graded_scores_keep_the_level_too() -> None:
    rng = random.Random(11)
    rejected = [first_rejection(graded, rng, 60) is not None for _ in range(100)]
    assert sum(rejected) / 100 <= ALPHA


def test_a_drop_of_20_points_is_found_after_some_dozen_samples() -> None:
    def worse(rng: random.Random) -> float:
        return float((rng.random() < 0.6) - (rng.random() < 0.8))

    rng = random.Random(3)
    found = [first_rejection(worse, rng, 1000) for _ in range(50)]
    counts = sorted(count for count in found if count is not None)
    assert len(counts) == 50
    assert 40 < counts[25] < 130


def test_the_wealth_by_hand() -> None:
    bets = [0.98 * 2 ** (-step / 2) for step in range(14)]
    wealth = sum((1 + bet) ** 3 * (1 - bet) for bet in bets) / 14
    assert log_wealth({-1.0: 3, 1.0: 1}) == pytest.approx(math.log(wealth))
    assert log_wealth({0.0: 5}) == 0
    assert log_wealth({}) == 0


def test_a_bound_is_the_mean_at_which_the_wealth_reaches_the_limit() -> None:
    differences = [-1.0] * 30 + [0.0] * 60 + [1.0] * 10
    one = anytime_difference(differences, ALPHA)
    assert one.samples == 100
    assert one.difference == pytest.approx(-0.2)
    low, high = one.interval
    assert -1 < low < -0.2 < high < 1
    counts = Counter(differences)
    assert log_wealth(counts, high) == pytest.approx(math.log(20), abs=0.01)
    opposite = {-value: count for value, count in counts.items()}
    assert log_wealth(opposite, -low) == pytest.approx(math.log(20), abs=0.01)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=80))
def test_the_verdict_and_the_interval_agree(differences: Sequence[float]) -> None:
    one = anytime_difference(differences, 0.01)
    low, high = one.interval
    assert -1 <= low <= one.difference <= high <= 1
    assert one.is_worse == (high < 0) or abs(high) < 1e-4
    mirrored = anytime_difference([-value for value in differences], 0.01)
    assert list(mirrored.interval) == pytest.approx([-high, -low])
    assert mirrored.is_worse == (low > 0) or abs(low) < 1e-4


def test_the_interval_shrinks_with_samples_and_covers_the_mean_at_every_look() -> None:
    rng, missed = random.Random(5), 0
    for _ in range(60):
        seen = []
        for number in range(1, 81):
            seen.append(float((rng.random() < 0.5) - (rng.random() < 0.7)))
            if number % 10 == 0:
                low, high = anytime_difference(seen, ALPHA / 2).interval
                if not low <= -0.2 <= high:
                    missed += 1
                    break
    assert missed / 60 <= ALPHA
    few = anytime_difference([-1.0, 0.0] * 10, ALPHA).interval
    many = anytime_difference([-1.0, 0.0] * 100, ALPHA).interval
    assert many[1] - many[0] < few[1] - few[0]


def test_other_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="use scores from 0 to 1"):
        anytime_difference([-1.2, 0.3], ALPHA)
    with pytest.raises(ValueError, match="give at least one"):
        anytime_difference([], ALPHA)


def test_samples_of_one_context_are_one_unit() -> None:
    ours = [{"a1": 1.0, "a2": 0.0, "b": 0.0, "alone": 1.0}]
    theirs = [{"a1": 1.0, "a2": 1.0, "b": 1.0}]
    assert sorted(paired_units(ours, theirs, {"a1": "a", "a2": "a"})) == [-1.0, -0.5]


def test_new_samples_of_a_repeat_are_new_units() -> None:
    ours, theirs = [{"a": 0.0}, {"b": 1.0}], [{"a": 1.0}, {"b": 0.5}]
    assert sorted(paired_units(ours, theirs, {})) == [-1.0, 0.5]


def test_samples_asked_again_count_once_with_the_mean_of_their_answers() -> None:
    ours = [{"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 1.0}]
    theirs = [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 0.0}]
    assert sorted(paired_units(ours, theirs, {})) == [-0.5, 0.5]


def test_of_samples_that_only_some_repeats_ask_again_the_first_answer_counts() -> None:
    ours, theirs = [{"a": 0.0}, {"a": 1.0, "b": 1.0}], [{"a": 1.0}, {"a": 0.0, "b": 0.0}]
    assert sorted(paired_units(ours, theirs, {})) == [-1.0, 1.0]
