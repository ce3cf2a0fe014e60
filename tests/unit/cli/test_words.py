"""Durations and hostile text as a terminal shows them."""

from __future__ import annotations

import pytest

from benchfleet.cli.words import duration, printable


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (52, "52 s"), (185, "3 min 05 s"), (11400, "3 h 10 min")],
)
def test_a_duration_is_as_short_as_it_may_be(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_what_could_steer_a_terminal_is_taken_out() -> None:
    assert printable("\x1b[31mred\x07\udce9 ± ✓") == "\ufffd[31mred\ufffd\ufffd ± ✓"
