"""Git as an object store, with real repositories, unaffected by its user's settings."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from benchfleet.errors import GitAway, GitError
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.process import Git, init_bare_repository
from benchfleet.git.remote import RefUpdate, Remote
from repositories import git, make_bare

WHO = "someone <someone@example.org>"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return make_bare(tmp_path / "lab é.git")


def one(tmp_path: Path, bare: Path, name: str = "own") -> tuple[Objects, Remote]:
    init_bare_repository(tmp_path / name)
    mine = Git(tmp_path / name)
    return Objects(mine), Remote(mine, f"file://{bare}", "the lab")


def test_objects_are_fetched_by_name_and_read_back(tmp_path: Path, bare: Path) -> None:
    mine, remote = one(tmp_path, bare)
    blob = mine.blob(b"\0 any bytes \xff")
    tree = mine.with_folder(EMPTY_TREE, "a/b c/d", mine.tree({"é.txt": (blob, False)}))
    tree = mine.with_file(tree, "a/b.json", blob)
    tree = mine.with_file(tree, "top", blob)
    commits = [mine.commit(tree, (), "one\n", who=WHO, at=1.0)]
    for number in range(3):
        commits.append(mine.commit(tree, (commits[-1],), f"{number}\n\né", who=WHO, at=1.0))
    assert remote.push([RefUpdate(ref="refs/heads/x", old="", new=commits[-1])])
    assert git(bare, "fsck", "--strict", "--no-dangling") == ""
    theirs, there = one(tmp_path, bare, "other")
    there.fetch([commits[-1]])
    assert [c.oid for c in theirs.since(commits[-1], commits[1])] == commits[2:]
    assert theirs.commit_of(commits[-1]).message == "2\n\né"
    found = theirs.lookup(theirs.commit_of(commits[-1]).tree, "a/b c/d/é.txt")
    assert found == (blob, False)
    assert theirs.read(blob) == ("blob", b"\0 any bytes \xff")
    assert theirs.lookup(tree, "a/nothing/here") is None
    with pytest.raises(GitError, match="rewritten"):
        theirs.since(commits[1], commits[2])
    with pytest.raises(GitError, match="is not in"):
        theirs.read("1" * 40)
    mine.close()
    theirs.close()


@pytest.mark.parametrize("name", ["", ".", "..", ".git", ".GIT", "a/b", "nul\0"])
def test_a_name_that_git_or_a_folder_cannot_bear_is_refused(
    tmp_path: Path, bare: Path, name: str
) -> None:
    objects, _ = one(tmp_path, bare)
    with pytest.raises(GitError, match="can be no name"):
        objects.tree({name: (EMPTY_TREE, True)})


def test_many_threads_may_read_at_once(tmp_path: Path, bare: Path) -> None:
    objects, _ = one(tmp_path, bare)
    written = {objects.blob(content): content for content in (b"a" * 90_000, b"b" * 10, b"c")}

    def reads(oid: str) -> set[bytes]:
        return {objects.read(oid)[1] for _ in range(300)}

    with ThreadPoolExecutor(6) as threads:
        for oid, found in zip(2 * [*written], threads.map(reads, 2 * [*written]), strict=True):
            assert found == {written[oid]}
    objects.close()


def test_a_read_that_is_interrupted_does_not_spoil_the_next(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, _ = one(tmp_path, bare)
    first, second = objects.blob(b"first"), objects.blob(b"second")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("benchfleet.git.object_reader.select.select", interrupted)
        with pytest.raises(KeyboardInterrupt):
            objects.read(first)
    assert objects.read(second) == ("blob", b"second")
    objects.close()


def test_what_else_lies_in_a_tree_stays_as_it_is(tmp_path: Path, bare: Path) -> None:
    objects, _ = one(tmp_path, bare)
    blob = objects.blob(b"x")
    lines = [
        f"100755 blob {blob}\tbin/run",
        f"120000 blob {blob}\tlink",
        f"160000 commit {'1' * 40}\tsub",
    ]
    index = {"GIT_INDEX_FILE": str(tmp_path / "index"), "GIT_DIR": str(tmp_path / "own")}

    def tool(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["git", *arguments], env={**os.environ, **index},
            input=stdin, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    tool("update-index", "--add", "--index-info", stdin="\n".join(lines) + "\n")
    tree = tool("write-tree", "--missing-ok").strip()
    tree = objects.with_file(objects.with_file(tree, "bin/other", blob), "new/file", blob)
    listed = tool("ls-tree", "-r", tree).splitlines()
    assert listed == sorted(
        [*lines, f"100644 blob {blob}\tbin/other", f"100644 blob {blob}\tnew/file"],
        key=lambda line: line.partition("\t")[2],
    )
    objects.close()


def test_links_and_submodules_are_not_seen(tmp_path: Path, bare: Path) -> None:
    objects, _ = one(tmp_path, bare)
    entry = f"120000 blob {objects.blob(b'/etc/passwd')}\tlink\n160000 commit {'1' * 40}\tsub\n"
    tree = subprocess.run(
        ["git", "--git-dir", str(tmp_path / "own"), "mktree", "--missing"],
        input=entry.encode(), capture_output=True, check=True,
    ).stdout.decode().strip()  # fmt: skip
    assert list(objects.entries(tree)) == []
    objects.close()


def test_a_remote_that_is_gone_is_away(tmp_path: Path, bare: Path) -> None:
    _, remote = one(tmp_path, bare)
    bare.rename(tmp_path / "elsewhere")
    with pytest.raises(GitAway, match=r"the lab: .*does not appear to be a git repository"):
        remote.refs("refs/*")
    with pytest.raises(GitAway, match="the lab"):
        remote.fetch(["1" * 40])


def test_a_server_that_hangs_is_given_up_with_all_that_was_started(tmp_path: Path) -> None:
    sleeper = tmp_path / "ssh"
    sleeper.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 600\n")
    sleeper.chmod(0o755)
    init_bare_repository(tmp_path / "own")
    slow = Git(
        tmp_path / "own", timeout=2.0, environ={**os.environ, "GIT_SSH_COMMAND": str(sleeper)}
    )
    with pytest.raises(GitAway, match=r"has not ended in 2 s"):
        Remote(slow, "ssh://git@nowhere/lab.git", "the lab").refs("refs/*")
    for pid in (tmp_path / "pids").read_text().split():
        until = time.monotonic() + 20
        while psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).status() != "zombie":
            assert time.monotonic() < until, f"{pid} lives on"
            time.sleep(0.02)


def test_no_setting_of_the_user_stands_in_the_way(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, checkout = tmp_path / "home", tmp_path / "checkout"
    (home / "hooks").mkdir(parents=True)
    hook = home / "hooks" / "pre-push"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[core]\nhooksPath = {home}/hooks\n[commit]\ngpgSign = true\n[push]\ngpgSign = true\n"
        "followTags = true\n[user]\nuseConfigOnly = true\n[init]\ntemplateDir = /nowhere\n"
    )
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    monkeypatch.setenv("HOME", str(home))
    for name, value in {
        "GIT_DIR": checkout / ".git",
        "GIT_WORK_TREE": checkout,
        "GIT_INDEX_FILE": checkout / ".git" / "index",
        "GIT_OBJECT_DIRECTORY": checkout / ".git" / "objects",
    }.items():
        monkeypatch.setenv(name, str(value))
    before = sorted(str(path) for path in checkout.rglob("*"))
    objects, remote = one(tmp_path, bare)
    new = objects.commit(EMPTY_TREE, (), "x\n", who=WHO, at=1.0)
    assert remote.push([RefUpdate(ref="refs/heads/x", old="", new=new)])
    assert sorted(str(path) for path in checkout.rglob("*")) == before
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("answer", ["", "printf blob", "printf 'a blob 100\\n'"])
def test_a_reader_that_hangs_is_given_up(bare: Path, tmp_path: Path, answer: str) -> None:
    """Before its answer, in its first line, and in the content."""
    bin = tmp_path / "bin"
    bin.mkdir()
    git_that_hangs = bin / "git"
    git_that_hangs.write_text(f"#!/bin/sh\nread line\n{answer or ':'}\nexec sleep 600\n")
    git_that_hangs.chmod(0o755)
    environ = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"}
    objects = Objects(Git(bare, environ=environ, timeout=0.5))
    with closing(objects), pytest.raises(GitAway, match="has not answered"):
        objects.read("0" * 40)
