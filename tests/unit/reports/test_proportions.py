"""Tango's interval of paired proportions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from scipy.optimize import minimize_scalar

from benchfleet.reports.proportions import design_effect, paired_interval
from benchfleet.reports.statistics import mcnemar_p, paired_difference


def test_the_interval_swaps_with_the_sides() -> None:
    low, high = paired_interval(12, 2, 50)
    assert paired_interval(2, 12, 50) == pytest.approx((-high, -low))


@pytest.mark.parametrize(("n", "margin"), [(100, 0.05), (200, 0.05), (400, 0.02)])
def test_a_drop_of_the_margin_is_rarely_called_smaller(n: int, margin: float) -> None:
    """Each count of losses is enumerated, with no gains and a true drop of the margin."""
    wrong = sum(
        math.comb(n, losses) * margin**losses * (1 - margin) ** (n - losses)
        for losses in range(n + 1)
        if paired_interval(0, losses, n)[0] > -margin
    )
    assert wrong <= 0.035


@pytest.mark.parametrize(("gains", "losses", "n"), [(12, 2, 50), (3, 9, 100), (1, 1, 30)])
def test_the_upper_end_solves_the_score_equation_of_the_constrained_likelihood(
    gains: int, losses: int, n: int
) -> None:
    end = paired_interval(gains, losses, n)[1]

    def loss(share: float) -> float:
        same = (n - gains - losses) * math.log(1 - 2 * share - end)
        return -(gains * math.log(share + end) + losses * math.log(share) + same)

    bounds = (1e-9, (1 - end) / 2 - 1e-9)
    share = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x
    deviation = math.sqrt(n * (2 * share + end * (1 - end)))
    assert (gains - losses - n * end) / deviation == pytest.approx(-1.959964, rel=1e-4)


PAIRS_OF_TWO = [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("differences", "effect"),
    [
        # The sums of squares are 1 of clusters and 1.5 of pairs, and one more cluster adds 4 and 2.
        ([1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], (1 + 4) / (1.5 + 2) * (4 / 3) / (8 / 7)),
        ([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 2.0),
        ([0.0] * 8, 2.0),
    ],
)
def test_the_design_effect_worked_by_hand(differences: Sequence[float], effect: float) -> None:
    assert design_effect(differences, PAIRS_OF_TWO) == pytest.approx(effect)
    assert design_effect(differences, range(8)) == 1.0
    assert design_effect([-one for one in differences], PAIRS_OF_TWO) == pytest.approx(effect)


def test_contexts_of_one_question_change_nothing() -> None:
    ours = {key: float(key % 3 == 0) for key in range(60)}
    theirs = {key: float(key % 5 == 0) for key in range(60)}
    alone = paired_difference(ours, theirs)
    assert paired_difference(ours, theirs, {key: f"context {key}" for key in ours}) == alone
    assert alone.interval == paired_interval(16, 8, 60)


def test_equal_pairs_count_as_their_contexts() -> None:
    scores = dict.fromkeys(range(100), 1.0)
    found = paired_difference(scores, scores, {key: key // 5 for key in scores})
    assert found.interval == pytest.approx(paired_interval(0, 0, 20))
    assert (found.stderr, found.p_value) == (0.0, 1.0)


@pytest.mark.parametrize("effect", [1.0, 1.3, 2.7])
def test_a_significant_difference_has_an_interval_without_zero(effect: float) -> None:
    for gains in range(1, 60):
        for losses in range(gains):
            if mcnemar_p(gains / effect, losses / effect) < 0.05:
                assert paired_interval(gains / effect, losses / effect, 200 / effect)[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("contexts", "questions"), [(20, 10), (50, 5), (100, 5)])
@pytest.mark.parametrize("shared", [0.0, 0.8, 1.0])
def test_a_drop_of_the_margin_in_contexts_is_rarely_called_smaller(
    contexts: int, questions: int, shared: float
) -> None:
    """Losses in 5 % of the pairs, some shared by a context: Student's interval excluded them in up
    to 24 %."""
    rng = random.Random(f"{contexts} {questions} {shared}")
    keys = range(contexts * questions)
    context_of = {key: key // questions for key in keys}
    wrong = 0
    for _ in range(200):
        together = [rng.random() for _ in range(contexts)]
        draws = (
            together[context_of[key]] if rng.random() < shared else rng.random() for key in keys
        )
        ours = dict(zip(keys, (float(draw >= 0.05) for draw in draws), strict=True))
        found = paired_difference(ours, dict.fromkeys(keys, 1.0), context_of)
        wrong += found.interval is not None and found.interval[0] > -0.05
    assert wrong / 200 <= 0.025
