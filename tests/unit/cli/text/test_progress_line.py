"""How far a verb is, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest

from benchfleet.cli.text.progress_line import progress_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "pipe"])
def test_only_a_terminal_shows_how_far_it_is_and_nothing_of_it_stays(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress_line("results taken in") as seen:
        seen(0, 64)
        seen(1, 64)  # too soon to be seen
    shown = "\r\x1b[Kresults taken in: 0 of 64\r\x1b[K" if stream.isatty() else ""
    assert stream.getvalue() == shown


def test_of_how_many_is_left_out_where_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress_line("copied") as seen:
        seen(1000, 0)
    assert terminal.getvalue() == "\r\x1b[Kcopied: 1000\r\x1b[K"


def test_progress_without_steps_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with progress_line("results taken in"):
        pass
    assert terminal.getvalue() == ""


def test_a_terminal_that_draws_nothing_again_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "dumb")
    with progress_line("results taken in") as seen:
        seen(0, 64)
    assert terminal.getvalue() == ""
