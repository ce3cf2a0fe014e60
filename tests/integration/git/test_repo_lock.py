"""The lock of an installation, while a git command that holds it hangs."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from benchfleet.errors import LedgerAway, LedgerUnreachable
from benchfleet.ledger.call_timeout import CallTimeout
from benchfleet.ledger.git import repo_lock
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.git.repo_lock import RepoLock


def test_a_call_with_a_limit_does_not_wait_for_another_thread_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repo_lock, "LIMITED_TIMEOUT_S", 0.05)
    calls = CallTimeout()
    lock = RepoLock(tmp_path / "turn", calls)
    held, done = threading.Event(), threading.Event()

    def hang() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hang, daemon=True)
    thread.start()
    held.wait()
    with pytest.raises(LedgerAway, match="holds"), calls.within(0.0), lock:
        pass
    done.set()
    thread.join()
    with calls.within(0.0), lock, lock:
        pass


def test_another_process_that_holds_the_lock_is_named(tmp_path: Path) -> None:
    with RepoLock(tmp_path / "turn"):
        other = RepoLock(tmp_path / "turn", timeout=0.05)  # as another process has it
        with pytest.raises(LedgerUnreachable, match="end it, or let it go on"), other:
            pass


def test_a_closed_ledger_leaves_no_file_open(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote")], check=True)
    url = f"git+file://{tmp_path / 'remote'}"
    for _ in range(3):
        GitLedger(url, campaign="study", folder=tmp_path / "here").close()
    opened = [os.path.realpath(file) for file in Path("/proc/self/fd").iterdir()]
    assert not [file for file in opened if file.startswith(str(tmp_path))]
