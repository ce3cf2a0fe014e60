"""When slots that are idle claim."""

from __future__ import annotations

import pytest

from benchfleet.runner.pace import BURST, REST, Pace


def test_it_is_time_once_nothing_more_came() -> None:
    pace = Pace()
    assert not pace.is_due(1.0, quiet=True)
    pace.ask(1.0)
    assert pace.wait(1.0, others=True) == 0
    assert not pace.is_due(1.0, quiet=False)
    assert pace.is_due(1.0, quiet=True)
    pace.claimed(1.0, 1.0)
    assert not pace.is_due(2.0, quiet=True)


def test_what_goes_on_arriving_is_not_waited_for_for_long() -> None:
    pace = Pace()
    pace.ask(1.0)
    pace.ask(1.0 + BURST / 2)
    assert not pace.is_due(1.0 + BURST / 2, quiet=False)
    assert pace.is_due(1.0 + BURST, quiet=False)


def test_after_a_claim_that_took_long_others_are_waited_for_if_there_are_any() -> None:
    pace = Pace()
    pace.claimed(1.0, 1.04)
    pace.ask(1.045)
    assert pace.wait(1.045, others=True) == pytest.approx(0.005)
    assert pace.wait(1.045, others=False) == 0
    assert not pace.is_due(1.05, quiet=False)
    assert pace.is_due(1.05, quiet=True)
    assert pace.is_due(1.05 + BURST, quiet=False)
    assert pace.wait(1.06, others=True) == 0


def test_nobody_waits_after_a_quick_claim_nor_long_after_a_slow_one() -> None:
    pace = Pace()
    pace.claimed(1.0, 1.003)
    assert pace.wait(1.003, others=True) == 0
    pace.claimed(1.0, 9.0)
    assert pace.wait(9.0, others=True) == pytest.approx(REST)
