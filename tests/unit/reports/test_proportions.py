"""Tango's interval of paired proportions."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import minimize_scalar

from benchfleet.reports.proportions import paired_interval


def test_the_interval_swaps_with_the_sides():
    low, high = paired_interval(12, 2, 50)
    assert paired_interval(2, 12, 50) == pytest.approx((-high, -low))


@pytest.mark.parametrize(("n", "margin"), [(100, 0.05), (200, 0.05), (400, 0.02)])
def test_a_drop_of_the_margin_is_rarely_called_smaller(n, margin):
    """Each count of losses is enumerated, with no gains and a true drop of the margin."""
    wrong = sum(
        math.comb(n, losses) * margin**losses * (1 - margin) ** (n - losses)
        for losses in range(n + 1)
        if paired_interval(0, losses, n)[0] > -margin
    )
    assert wrong <= 0.035


@pytest.mark.parametrize(("gains", "losses", "n"), [(12, 2, 50), (3, 9, 100), (1, 1, 30)])
def test_the_upper_end_solves_the_score_equation_of_the_constrained_likelihood(gains, losses, n):
    end = paired_interval(gains, losses, n)[1]

    def loss(share):
        same = (n - gains - losses) * math.log(1 - 2 * share - end)
        return -(gains * math.log(share + end) + losses * math.log(share) + same)

    bounds = (1e-9, (1 - end) / 2 - 1e-9)
    share = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x
    deviation = math.sqrt(n * (2 * share + end * (1 - end)))
    assert (gains - losses - n * end) / deviation == pytest.approx(-1.959964, rel=1e-4)
