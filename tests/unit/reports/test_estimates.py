"""Intervals of weighted sums, with p-values that agree with them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import pytest

from benchfleet.reports.estimates import Interval, WeightedEstimate, Z
from benchfleet.reports.statistics import (
    SIGNIFICANCE,
    Difference,
    mcnemar_p,
    paired_difference,
    weighted_difference,
)


@dataclass(frozen=True)
class Wilson:
    """One proportion with Wilson's score interval."""

    successes: float
    n: float

    @property
    def middle(self) -> float:
        return self.successes / self.n

    def lower_end(self, z: float) -> float:
        return self.interval(z)[0]

    def interval(self, z: float) -> Interval:
        share, square = self.middle, z * z / self.n
        reach = z * math.sqrt(share * (1 - share) / self.n + square / (4 * self.n))
        centre = share + square / 2
        return (centre - reach) / (1 + square), (centre + reach) / (1 + square)

    def grown(self, growth: float) -> Wilson:
        return Wilson(self.successes * growth, self.n * growth)

    def reversed(self) -> Wilson:
        return replace(self, successes=self.n - self.successes)


def flips(gains: int, losses: int, n: int) -> Difference:
    """The difference of n pairs with so many flips."""
    ours = {key: float(key < gains) for key in range(n)}
    theirs = {key: float(gains <= key < gains + losses) for key in range(n)}
    return paired_difference(ours, theirs)


def below(one: Difference) -> float:
    """How far the interval reaches below the difference."""
    assert one.difference is not None
    assert one.interval is not None
    return one.difference - one.interval[0]


def mean_of(*parts: Difference) -> Difference:
    return weighted_difference([(1 / len(parts), part) for part in parts])


def test_the_interval_of_a_sum_is_newcombes_published_one() -> None:
    """56 of 70 less 48 of 80 (Newcombe 1998, Statistics in Medicine 17, 873-890, method 10)."""
    parts = ((1.0, Wilson(56, 70)), (-1.0, Wilson(48, 80)))
    assert WeightedEstimate(parts).interval(Z) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    low, high = WeightedEstimate(parts).interval(Z)
    assert WeightedEstimate(parts[::-1]).interval(Z) == pytest.approx((low, high))


@pytest.mark.parametrize(("gains", "losses"), [(6, 0), (3, 9), (0, 0), (40, 20)])
def test_a_suite_of_one_part_is_that_part(gains: int, losses: int) -> None:
    part = flips(gains, losses, 100)
    assert mean_of(part) == part
    assert part.p_value == pytest.approx(mcnemar_p(gains, losses))


def test_p_and_interval_of_a_suite_never_disagree() -> None:
    for gains in range(16):
        one = mean_of(flips(gains, 1, 60), flips(gains // 2, 0, 40))
        assert one.p_value is not None
        assert one.interval is not None
        assert one.test == "score"
        assert (one.p_value < SIGNIFICANCE) == (one.interval[0] > 0)
        reverse = mean_of(flips(1, gains, 60), flips(0, gains // 2, 40))
        assert reverse.p_value == pytest.approx(one.p_value)
        assert reverse.interval == pytest.approx((-one.interval[1], -one.interval[0]))
        turned = one.reversed().estimate
        assert turned is not None
        assert turned.interval(Z) == pytest.approx(reverse.interval)


def test_p_of_many_flips_is_that_of_the_normal() -> None:
    """With many samples MOVER's p tends to that of z, the difference over its error."""
    one = mean_of(flips(5200, 5000, 100_000), flips(4950, 5000, 100_000))
    z = 150 / 200_000 / math.hypot(*(math.sqrt(flipped) / 200_000 for flipped in (10_200, 9_950)))
    expected = math.erfc(z / math.sqrt(2))
    assert one.p_value == pytest.approx(expected, rel=2e-3)


def test_other_scores_keep_students_interval_beside_flips() -> None:
    rng = random.Random(3)
    scores = {key: rng.random() for key in range(40)}
    moved = {key: value + rng.gauss(0.02, 0.1) for key, value in scores.items()}
    student, score = paired_difference(moved, scores), flips(1, 4, 50)
    found = mean_of(student, score)
    assert below(found) == pytest.approx(math.hypot(below(student), below(score)) / 2)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "parts"), [(50, 3), (100, 2), (100, 5)])
def test_a_drop_of_the_margin_in_a_suite_is_rarely_called_smaller(n: int, parts: int) -> None:
    """Losses alone, in 2 % of the pairs: Student's interval excluded them in 8 % with two parts."""
    rng = random.Random(f"{n} {parts}")
    wrong = 0
    for _ in range(400):
        losses = [sum(rng.random() < 0.02 for _ in range(n)) for _ in range(parts)]
        one = mean_of(*(flips(0, count, n) for count in losses))
        wrong += one.interval is not None and one.interval[0] > -0.02
    assert wrong / 400 <= 0.025
