"""A signal to all processes of a batch job ends git too, while the ledger uses it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.errors import GitAway, GitError, LedgerAway
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.process import Git, init_bare_repository
from benchfleet.testing.claims import claim_any

from .conftest import CELLS, ME, SUCCESS, opened

WHO = "tester <tester@example.org>"
# Ends itself the first time that it is to run one of these commands, before or after the real git.
KILLED = """#!/bin/sh
for word; do
  case "$word" in ls-remote|fetch|cat-file|push)
    [ -e "{marks}/$word" ] || {{
      {mark}
      {before}
      kill -TERM $$
    }} ;;
  esac
done
exec {git} "$@"
"""
Kill = Callable[..., None]


@pytest.fixture
def kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kill:
    """End git once in each of these commands from now on, and otherwise no more."""
    marks, bin = tmp_path / "marks", tmp_path / "bin"
    marks.mkdir()
    bin.mkdir()
    real = shutil.which("git")
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")

    def kill(*commands: str, done: bool = False, always: bool = False) -> None:
        for name in ("ls-remote", "fetch", "cat-file", "push"):
            if name in commands:
                (marks / name).unlink(missing_ok=True)
            else:
                (marks / name).touch()
        before = f'[ "$word" != push ] || {real} "$@" > {tmp_path}/out' if done else ":"
        mark = ":" if always else f': > "{marks}/$word"'
        draft = bin / "draft"
        draft.write_text(KILLED.format(marks=marks, mark=mark, before=before, git=real))
        draft.chmod(0o755)
        draft.rename(bin / "git")

    kill()
    return kill


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_call_whose_git_was_killed_goes_through(bare: Path, kill: Kill, done: bool) -> None:
    """The push was killed before it reached the remote, or before its answer came."""
    every = "ls-remote", "fetch", "cat-file", "push"
    with closing(opened(bare, "mine")) as mine, closing(opened(bare, "theirs")) as theirs:
        mine.enroll(CELLS[:2])
        theirs.enroll(CELLS[2:4])  # which there is to fetch
        kill(*every, done=done)
        first, second = claim_any(mine, ME, limit=2)
        kill(*every, done=done)
        mine.release([first.lease], "its batch job ends")
        kill(*every, done=done)
        mine.finish(second.lease, SUCCESS)
        states = {record.fingerprint: record.state for record in theirs.cells()}
        assert states[first.lease.fingerprint] == "pending"
        assert states[second.lease.fingerprint] == "success"
        kinds = [event.kind for event in theirs.events(fingerprints=[first.lease.fingerprint])]
        assert kinds == ["claimed", "released"]


def test_a_push_that_is_killed_again_and_again_is_given_up(bare: Path, kill: Kill) -> None:
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS[:1])
        kill("push", always=True)
        with ledger.within(0.0), pytest.raises(LedgerAway, match="SIGTERM ended git push"):
            claim_any(ledger, ME)


def test_an_object_is_read_though_its_reader_was_killed(tmp_path: Path, kill: Kill) -> None:
    init_bare_repository(tmp_path / "own")
    with closing(Objects(Git(tmp_path / "own"))) as objects:
        new = objects.commit(EMPTY_TREE, (), "x\n", who=WHO, at=1.0)
        kill("cat-file")
        assert objects.commit_of(new).message == "x\n"


def test_a_reader_that_ends_of_its_own_is_no_interruption(tmp_path: Path) -> None:
    """The remote is not away then: waiting would not help."""
    failing = tmp_path / "git"
    failing.write_text("#!/bin/sh\nread line\nexit 1\n")
    failing.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    caught = pytest.raises(GitError, match="ended without an answer")
    with closing(Objects(Git(tmp_path, environ=environ))) as objects, caught as error:
        objects.read("0" * 40)
    assert not isinstance(error.value, GitAway)
