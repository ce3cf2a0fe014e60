"""Atomic compare-and-swap pushes to a real repository, and every way in which one can fail."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from benchfleet.errors import GitAway, GitDenied, GitError, PushRejected
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.process import Git, init_bare_repository
from benchfleet.git.remote import RefUpdate, Remote
from repositories import git, make_bare

WHO = "someone <someone@example.org>"
A, B = "refs/benchfleet/x/a", "refs/benchfleet/x/b"
Opened = Callable[..., tuple[Objects, Remote]]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return make_bare(tmp_path / "lab é%.git")


@pytest.fixture
def opened(tmp_path: Path, bare: Path) -> Iterator[Opened]:
    """A repository of our own, and the bare one as its remote."""
    all_: list[Objects] = []

    def one(**how: float) -> tuple[Objects, Remote]:
        init_bare_repository(tmp_path / "own")
        mine = Git(tmp_path / "own", **how)  # type: ignore[arg-type]
        all_.append(Objects(mine))
        url = f"file://{bare}".replace("%", "%25")
        return all_[-1], Remote(mine, url, "the lab")

    yield one
    for objects in all_:
        objects.close()


def hook(bare: Path, name: str, script: str) -> None:
    file = bare / "hooks" / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def commit(objects: Objects, text: str, *parents: str, tree: str = EMPTY_TREE) -> str:
    return objects.commit(tree, parents, f"{text}\n", who=WHO, at=1.0)


def test_refs_go_from_what_was_expected_to_what_is_wanted(opened: Opened, bare: Path) -> None:
    objects, remote = opened()
    first, second = commit(objects, "first"), commit(objects, "second")
    beat = objects.blob(b"a heartbeat")
    assert remote.push([RefUpdate(ref=A, old="", new=first)])
    assert not remote.push(
        [RefUpdate(ref=A, old="", new=second), RefUpdate(ref=B, old="", new=second)]
    )
    assert not remote.push(
        [RefUpdate(ref=A, old=second, new=first), RefUpdate(ref=B, old=first, new=second)]
    )
    assert not remote.push([RefUpdate(ref=B, old="", new=second)], expected={A: second})
    assert remote.refs("refs/*") == {A: first}
    assert remote.push([RefUpdate(ref=B, old="", new=second)], expected={A: first})
    assert remote.push(
        [RefUpdate(ref=A, old=first, new=beat), RefUpdate(ref=B, old=second, new="")]
    )
    assert remote.push([RefUpdate(ref=A, old=first, new=beat)]), "it is so already"
    assert remote.refs("refs/*") == {A: beat}
    assert git(bare, "fsck", "--strict", "--no-dangling") == ""


def test_what_is_not_here_is_not_pushed(opened: Opened) -> None:
    objects, remote = opened()
    new = commit(objects, "x", tree=objects.tree({"lacking": ("1" * 40, False)}))
    with pytest.raises(GitError):
        remote.push([RefUpdate(ref=A, old="", new=new)])
    assert remote.refs("refs/*") == {}


@pytest.mark.parametrize(
    ("name", "script", "says"),
    [
        ("pre-receive", "echo closed for now >&2; exit 1", r"hook declined.*closed for now"),
        ("update", f"echo about $1 >&2; test $1 != {B}", rf"hook declined.*about {B}"),
    ],
)  # fmt: skip
def test_a_hook_that_refuses_is_reported_in_its_words(
    opened: Opened, bare: Path, name: str, script: str, says: str
) -> None:
    hook(bare, name, script)
    objects, remote = opened()
    new = commit(objects, "x")
    with pytest.raises(GitDenied, match=rf"the lab rejects the push: .*{says}"):
        remote.push([RefUpdate(ref=A, old="", new=new), RefUpdate(ref=B, old="", new=new)])
    assert remote.refs("refs/*") == {}


@pytest.mark.parametrize(
    "says",
    [
        "GH006: Protected branch update failed for refs/heads/main.",
        "GitLab: You are not allowed to push code to protected branches on this project.",
        "ERROR: This repository was archived so it is read-only.",
    ],
)
def test_a_rule_that_will_refuse_again_is_not_a_mere_rejection(
    opened: Opened, bare: Path, says: str
) -> None:
    hook(bare, "pre-receive", f"echo '{says}' >&2; exit 1")
    objects, remote = opened()
    with pytest.raises(GitDenied, match=re.escape(says)) as raised:
        remote.push([RefUpdate(ref=A, old="", new=commit(objects, "x"))])
    assert not isinstance(raised.value, PushRejected)


def test_a_repository_that_cannot_take_the_objects_is_away(opened: Opened, bare: Path) -> None:
    git(bare, "config", "receive.maxInputSize", "20")
    objects, remote = opened()
    with pytest.raises(GitAway, match=r"the lab cannot store the push: .*exceeds maximum"):
        remote.push([RefUpdate(ref=A, old="", new=commit(objects, "x"))])


def test_a_ref_that_is_locked_is_named(opened: Opened, bare: Path) -> None:
    objects, remote = opened()
    assert remote.push([RefUpdate(ref=A, old="", new=commit(objects, "x"))])
    (bare / f"{B}.lock").touch()
    assert not remote.push([RefUpdate(ref=B, old="", new=commit(objects, "y"))])
    assert "refs/benchfleet/x/b.lock': File exists" in remote.refused


def test_a_repository_of_somebody_else_is_refused(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened()
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("HOME", "/nowhere")
    objects, remote = opened()
    with pytest.raises(GitDenied, match=r"the lab: .*dubious ownership"):
        remote.push([RefUpdate(ref=A, old="", new=commit(objects, "x"))])


def test_one_that_takes_no_atomic_pushes_is_refused(opened: Opened, bare: Path) -> None:
    git(bare, "config", "receive.advertiseAtomic", "false")
    objects, remote = opened()
    with pytest.raises(GitError, match="the lab takes no atomic pushes"):
        remote.push([RefUpdate(ref=A, old="", new=commit(objects, "x"))])


def test_a_server_that_is_killed_or_gone_is_away(opened: Opened, bare: Path) -> None:
    objects, remote = opened()
    hook(bare, "pre-receive", "kill -9 $PPID")
    swap = RefUpdate(ref=A, old="", new=commit(objects, "x"))
    with pytest.raises(GitAway, match=r"the lab: \w+"):
        remote.push([swap])
    (bare / "hooks" / "pre-receive").unlink()
    assert remote.push([swap])
    bare.rename(bare.with_name("elsewhere"))
    with pytest.raises(GitAway, match=r"the lab: .*does not appear to be a git repository"):
        remote.push([swap])


def test_a_hook_that_hangs_is_given_up_and_no_ref_stays_locked(
    opened: Opened, bare: Path, tmp_path: Path
) -> None:
    hook(bare, "reference-transaction", f"echo $$ > {tmp_path}/pid\nexec sleep 600")
    objects, remote = opened(timeout=1.0)
    swap = RefUpdate(ref=A, old="", new=commit(objects, "x"))
    with pytest.raises(GitAway, match="has not ended in 1 s"):
        remote.push([swap])
    (bare / "hooks" / "reference-transaction").unlink()
    assert not remote.refused
    assert remote.push([swap]), remote.refused
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie":
        assert time.monotonic() < until
        time.sleep(0.02)
