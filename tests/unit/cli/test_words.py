"""Hostile text as a terminal shows it."""

from __future__ import annotations

from benchfleet.cli.words import printable


def test_what_could_steer_a_terminal_is_taken_out() -> None:
    assert printable("\x1b[31mred\x07\udce9 ± ✓") == "\ufffd[31mred\ufffd\ufffd ± ✓"
