"""A run as somebody sees it who sits at a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess

import pytest

from benchfleet.cli.text.terminal import columns
from repositories import make_bare

from .conftest import COMMAND, MOCK, User


def seen(user: User, *words: str, terminal: str = "xterm", width: int = 100, code: int = 0) -> str:
    """What benchfleet writes to a terminal of that kind, to its end."""
    ours, its = pty.openpty()
    environment = {**user.environment, "TERM": terminal, "COLUMNS": str(width)}
    command = subprocess.Popen(
        [*COMMAND, *words], cwd=user.folder, env=environment, stdin=its, stdout=its, stderr=its
    )
    os.close(its)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: nobody writes any more
        while part := os.read(ours, 2**16):
            shown += part
    os.close(ours)
    assert command.wait(60) == code, shown
    return shown.decode()


@pytest.mark.parametrize("terminal", ["dumb", "xterm"])
def test_a_terminal_that_draws_nothing_again_gets_a_line_for_each_event(
    user: User, terminal: str
) -> None:
    user.write(MOCK)
    shown = seen(user, "run", "study.yaml", "--cpu-slots", "1", terminal=terminal)
    dumb = terminal == "dumb"
    assert bool(re.search(r"\[1/2\] ✓ m[12]/dense/mock_benchmark", shown)) == dumb
    assert ("\x1b[2K" in shown) != dumb
    assert ("cpu:0" in shown) != dumb
    assert "What won" in shown


def test_who_copies_a_ledger_to_a_repository_sees_how_far_it_is(finished: User) -> None:
    make_bare(finished.folder / "lab.git")
    shown = seen(finished, "ledger", "copy", "study.yaml", "--to", "git+file:lab.git")
    output = re.findall(r"\r\x1b\[Kcopied: (\d+) of (\d+)", shown)
    events = int(output[0][1])
    assert output[0] == ("0", str(events))
    assert events >= 4  # each cell was claimed and finished
    assert "\r\x1b[K2 cells copied with all history to git+file:lab.git" in shown


def test_hosts_that_do_not_answer_are_named_whole_on_a_narrow_terminal(user: User) -> None:
    name = "a-host-with-a-long-name-in-the-lab"
    user.write(f"hosts: {{{name}: {{address: 127.0.0.1, port: 1}}}}\n", "machines.yaml")
    shown = seen(user, "hosts", "check", "machines.yaml", width=50, code=1)
    assert f" {name} " in shown.replace("\r\n", " ")
    assert "usable" in shown
    assert "devices" not in shown  # none was reported


def test_a_plan_stands_in_columns_where_names_are_of_wide_characters(user: User) -> None:
    user.write(MOCK.replace("name: m2", "name: 模型"))
    rows = [line for line in user.run("plan", "study.yaml").stdout.splitlines() if "dense/" in line]
    one, two = (columns(row[: row.index("–")]) for row in rows)
    assert one == two
