"""Finished results on a disk that can only be read, as of a server or of a container's mount."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from .conftest import MOCK, User


@pytest.fixture
def read_only(finished: User) -> Iterator[Callable[[], None]]:
    """Mounts the user's results read-only where it is called."""
    folder = str(finished.results)
    command = ["mount", "--bind", folder, folder]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        reason = "needs root and the right to mount, for a disk that can only be read"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    yield lambda: mount("-o", "remount,ro,bind", folder)
    subprocess.run(["umount", "--lazy", folder], check=True)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def test_results_that_can_only_be_read_are_shown(
    finished: User, read_only: Callable[[], None]
) -> None:
    before = {verb: finished.run(verb, "study.yaml").stdout for verb in ("status", "report")}
    read_only()
    assert {verb: finished.run(verb, "study.yaml").stdout for verb in before} == before
    assert "2 results verified" in finished.run("verify", "study.yaml").stdout
    assert (
        "name another with --output"
        in finished.run("report", "study.yaml", "--format", "html", code=2).stderr
    )
    finished.run("report", "study.yaml", "--output", "page.html")
    assert "Ingham" not in finished.run("manifest", "study.yaml").stdout
    assert "all cells are done" in finished.run("run", "study.yaml").stdout


def test_what_would_write_a_ledger_that_can_only_be_read_says_what_to_do(
    finished: User, read_only: Callable[[], None]
) -> None:
    read_only()
    finished.write(MOCK + "defaults: {repeats: 2}\n")
    output = finished.run("cancel", "study.yaml", "--yes", code=3).stderr
    assert "ledger.db cannot be written" in output
    assert "name that with --results" in output


def test_a_ledger_whose_newest_events_cannot_be_read_is_not_shown_without_them(
    finished: User, read_only: Callable[[], None]
) -> None:
    """A killed run leaves a write-ahead log, which SQLite reads only where it can write."""
    ledger = finished.results / "ledger.db"
    with closing(sqlite3.connect(ledger, isolation_level=None)) as opened:
        opened.execute("insert into meta values ('some', 'thing')")
        left = (finished.results / "ledger.db-wal").read_bytes()
    (finished.results / "ledger.db-wal").write_bytes(left)
    read_only()
    output = finished.run("status", "study.yaml", code=3).stderr
    assert "its newest events are in ledger.db-wal still" in output
    assert "copy" in output
