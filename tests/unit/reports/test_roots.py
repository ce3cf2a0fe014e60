"""Roots beside those of scipy."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from scipy.optimize import brentq

from benchfleet.reports.proportions import _score, upper_end
from benchfleet.reports.roots import find_root

FUNCTIONS: list[Callable[[float], float]] = [
    lambda x: 1 - x,
    lambda x: 2 - x**3,
    lambda x: math.exp(-x) - 0.01,
    lambda x: 3 - math.inf if x >= 9 else 3 - 1 / (9 - x),
]


@pytest.mark.parametrize("step", [0.01, 0.5, 8.0, 100.0])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_root_is_that_of_scipy(function: Callable[[float], float], step: float) -> None:
    seen = []

    def counted(x: float) -> float:
        seen.append(x)
        return function(x)

    found = find_root(counted, (0.0, function(0.0)), step, 10.0, tolerance=1e-13)
    assert found == pytest.approx(brentq(function, 0.0, 8.99, xtol=1e-14), abs=1e-12)
    assert len(seen) < 40  # bisection alone takes 47


def test_the_limit_stands_for_the_root_of_a_function_that_stays_positive() -> None:
    assert find_root(lambda x: 1.0, (0.0, 1.0), 0.1, 7.0, tolerance=1e-9) == 7.0


@pytest.mark.parametrize("z", [0.01, 1.96, 6.9])
@pytest.mark.parametrize(("gains", "losses"), [(0, 0), (1, 0), (0.6, 0.6), (50, 50), (99, 1)])
def test_an_upper_end_is_where_scipy_has_it(gains: float, losses: float, z: float) -> None:
    n, middle = 100.0, (gains - losses) / 100

    def above(difference: float) -> float:
        return max(_score(difference, gains, losses, n), -1e6) + z

    expected = brentq(above, middle, 1 - 1e-15, xtol=1e-15)
    assert upper_end(gains, losses, n, z) == pytest.approx(expected, abs=1e-11)
    if not gains + losses:
        assert expected == pytest.approx(z**2 / (n + z**2), abs=1e-11)
