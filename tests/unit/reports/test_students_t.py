"""Student's t: quantiles and p-values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchfleet.reports.students_t import t_quantile, two_sided_p


@given(st.floats(-50, 50), st.integers(1, 20_000))
def test_p_value_falls_with_distance_and_knows_no_sign(t: float, freedom: int) -> None:
    assert two_sided_p(t, freedom) == two_sided_p(-t, freedom)
    assert two_sided_p(abs(t) + 0.1, freedom) <= two_sided_p(t, freedom)


def test_p_value_passes_to_the_normal_without_a_step() -> None:
    for t in (0.5, 1.96, 4.0):
        assert two_sided_p(t, 9_999) == pytest.approx(two_sided_p(t, 10_000), rel=0.01)


def test_p_value_at_the_ends() -> None:
    assert two_sided_p(0.0, 7) == 1
    assert two_sided_p(math.inf, 7) == 0
    assert two_sided_p(1e200, 7) == 0


@pytest.mark.parametrize("wrong", [0, -1])
def test_students_t_wants_a_degree_of_freedom(wrong: int) -> None:
    with pytest.raises(ValueError, match="degree of freedom"):
        two_sided_p(1.0, wrong)


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_a_confidence_lies_between_nothing_and_certainty(wrong: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(wrong, 5)
