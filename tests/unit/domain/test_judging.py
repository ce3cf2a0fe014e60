"""Verdicts are parsed strictly."""

from __future__ import annotations

import pytest

from benchfleet.domain.judging import parse_verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Good.\nVERDICT: 4", 4.0),
        ("VERDICT: 4.5\n", 4.5),
        ("VERDICT: 6", None),
        ("VERDICT: 4 of 5", None),
        ("verdict: 4", None),
        ("VERDICT: 4\nor so", None),
        ("VERDICT: 2\nVERDICT: 4", None),
        ("VERDICT: A", None),
        ("4", None),
        ("", None),
    ],
)
def test_a_number_of_the_scale(text: str, verdict: float | None) -> None:
    assert parse_verdict(text, (1, 5)) == verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("VERDICT: A", 1.0), ("x\nVERDICT: B", 0.0), ("VERDICT: TIE", 0.5), ("VERDICT: 1", None)],
)
def test_a_pair(text: str, verdict: float | None) -> None:
    assert parse_verdict(text, None) == verdict
