"""What a benchmark says to parameters that it does not take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from benchfleet.benchmarks.parameters import fractions, whole_number, with_defaults


def test_defaults_fill_in_what_was_not_given() -> None:
    assert with_defaults({"b": 3}, {"a": 1, "b": 2}) == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("given", "known", "hint"),
    [
        ("sample", {"samples": 1, "records": 2}, r"did you mean 'samples'\?"),
        ("zzz", {"samples": 1, "records": 2}, "there are samples, records"),
        ("a", {}, "this benchmark takes none; remove it"),
    ],
)
def test_an_unknown_name_is_answered_with_the_near_one_or_all(
    given: str, known: Mapping[str, int], hint: str
) -> None:
    with pytest.raises(ValueError, match=f"^no parameter '{given}'; {hint}$"):
        with_defaults({given: 3}, known)


@pytest.mark.parametrize("value", [1, 5, 10])
def test_a_whole_number_within_its_limits_is_taken(value: int) -> None:
    assert whole_number("n", value, least=1, most=10) == value


@pytest.mark.parametrize("value", [0, 11, -1, True, 2.0, "3", None, math.nan])
def test_other_values_are_refused_with_the_limits(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^n must be a whole number from 1 to 10, not "):
        whole_number("n", value, least=1, most=10)


def test_a_number_without_an_upper_limit_says_only_the_lower() -> None:
    assert whole_number("n", 10**9, least=1) == 10**9
    with pytest.raises(ValueError, match=r"^n must be a whole number of at least 1, not 0$"):
        whole_number("n", 0, least=1)


def test_fractions_become_floats_so_that_one_value_has_one_identity() -> None:
    assert [repr(item) for item in fractions("d", (0, 0.5, 1))] == ["0.0", "0.5", "1.0"]


@pytest.mark.parametrize("value", [0.5, "0.5", [], None, {"a": 1}])
def test_what_is_no_list_of_fractions_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^d must be a list of numbers, such as "):
        fractions("d", value)


@pytest.mark.parametrize("item", [-0.1, 1.1, True, "0.5", None, math.nan, math.inf])
def test_a_fraction_outside_0_to_1_is_refused_by_its_value(item: Any) -> None:
    with pytest.raises(ValueError, match=r"^each of d must be a number from 0 to 1, not "):
        fractions("d", [0.5, item])


def test_a_fraction_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^each of d must differ"):
        fractions("d", [0, 0.0])
