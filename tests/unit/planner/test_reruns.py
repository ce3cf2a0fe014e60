"""The sentence about finished work that a changed campaign would run again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchfleet.planner.reruns import Reruns


@pytest.mark.parametrize(
    ("identities", "advice"),
    [
        ({}, "undo the change."),
        (
            {"ab": ("sums",)},
            'undo the change or write `identity: "ab"` in the benchmark\'s entry.',
        ),
        (
            {"ab": ("sums",), "cd": ("products", "quotients")},
            'undo the change or write `identity: "ab"` in the entry of sums, '
            '`identity: "cd"` in the entry of products, quotients.',
        ),
    ],
)
def test_each_identity_that_keeps_results_names_its_benchmarks(
    identities: Mapping[str, tuple[str, ...]], advice: str
) -> None:
    reruns = Reruns(changed=("its content",), cells=("a",), seconds=0, identities=identities)
    assert str(reruns).endswith(f"To keep the results, {advice}")
