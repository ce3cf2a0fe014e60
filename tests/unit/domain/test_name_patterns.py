"""Names are chosen by name, glob and negation."""

from __future__ import annotations

import pytest

from benchfleet.domain.name_patterns import matches


@pytest.mark.parametrize(
    ("patterns", "agreeing"),
    [
        ((), {"dense", "top-8", "top-16", "a[1]"}),
        (("dense",), {"dense"}),
        (("top-*",), {"top-8", "top-16"}),
        (("top-?", "dense"), {"dense", "top-8"}),
        (("!dense",), {"top-8", "top-16", "a[1]"}),
        (("top-*", "!top-8"), {"top-16"}),
        (("a[1]",), {"a[1]"}),
        (("!a[1]",), {"dense", "top-8", "top-16"}),
        (("DENSE",), set()),
    ],
)
def test_names_agree_with_patterns_by_name_glob_and_negation(
    patterns: tuple[str, ...], agreeing: set[str]
) -> None:
    names = {"dense", "top-8", "top-16", "a[1]"}
    assert {name for name in names if matches(patterns, name)} == agreeing


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        ((), True),
        (("lab1",), True),
        (("big",), True),
        (("!big",), False),
        (("lab*", "!big"), False),
    ],
)
def test_a_negated_pattern_excludes_what_has_several_names(
    patterns: tuple[str, ...], chosen: bool
) -> None:
    assert matches(patterns, "lab1", "big") is chosen
