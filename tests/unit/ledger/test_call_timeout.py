"""How long the calls of one thread wait."""

from __future__ import annotations

from benchfleet.ledger.call_timeout import CallTimeout


def test_an_inner_limit_ends_before_the_outer_one() -> None:
    limits = CallTimeout()
    with limits.within(5.0):
        with limits.within(2.0):
            assert limits.seconds(60.0) == 2.0
        assert limits.seconds(60.0) == 5.0
    assert limits.seconds(60.0) == 60.0
    assert not limits.is_set
