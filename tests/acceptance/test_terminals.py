"""A run as somebody sees it who sits at a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess

import pytest

from .conftest import COMMAND, MOCK, User


def seen(user: User, *words: str, terminal: str) -> str:
    """What benchfleet writes to a terminal of that kind, to its end."""
    ours, its = pty.openpty()
    environment = {**user.environment, "TERM": terminal}
    del environment["COLUMNS"]
    command = subprocess.Popen(
        [*COMMAND, *words], cwd=user.folder, env=environment, stdin=its, stdout=its, stderr=its
    )
    os.close(its)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: nobody writes any more
        while part := os.read(ours, 2**16):
            shown += part
    os.close(ours)
    assert command.wait(60) == 0, shown
    return shown.decode()


@pytest.mark.parametrize("terminal", ["dumb", "xterm"])
def test_a_terminal_that_draws_nothing_again_gets_a_line_for_each_event(
    user: User, terminal: str
) -> None:
    user.write(MOCK)
    shown = seen(user, "run", "study.yaml", "--cpu-slots", "1", terminal=terminal)
    dumb = terminal == "dumb"
    assert ("[1/2] ✓ m1/dense/mock_benchmark" in shown) == dumb
    assert ("\x1b[2K" in shown) != dumb
    assert "What won" in shown
