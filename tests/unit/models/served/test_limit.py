"""The number of requests at a time follows 429s."""

from __future__ import annotations

from benchfleet.models.served.limit import AdaptiveLimit


def test_a_429_halves_once_in_a_round_and_never_below_one() -> None:
    limit = AdaptiveLimit(20)
    assert limit.now == 8
    limit.limited(0)
    limit.limited(0)  # was under way at the cut
    assert limit.now == 4
    for cuts in (1, 2, 3):
        limit.limited(cuts)
    assert limit.now == 1


def test_a_full_round_without_429_adds_one_up_to_the_most() -> None:
    limit = AdaptiveLimit(9)
    for _ in range(8):
        limit.succeeded()
    assert limit.now == 9
    for _ in range(20):
        limit.succeeded()
    assert limit.now == 9


def test_a_limit_that_does_not_adapt_starts_at_the_most() -> None:
    assert AdaptiveLimit(20, adapts=False).now == 20
