"""Pushes to a repository in a folder, said by ourselves and by git, with real repositories."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest

from benchfleet.errors import GitAway, GitDenied, GitError
from benchfleet.git import parcel, receiving
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.process import Git, make_repository
from benchfleet.git.remote import Remote, Swap
from repositories import git, make_bare

WHO = "someone <someone@example.org>"
A, B = "refs/benchfleet/x/a", "refs/benchfleet/x/b"
BY_US = {"receive-pack", "unpack-objects", "rev-list"}  # git's processes
Opened = Callable[..., tuple[Objects, Remote]]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return make_bare(tmp_path / "lab é%.git")


@pytest.fixture
def opened(tmp_path: Path, bare: Path) -> Iterator[Opened]:
    """A repository of our own, and the bare one as its remote."""
    all_: list[Objects] = []

    def one(
        ours: bool = True, spared: tuple[str, ...] = (), **how: float
    ) -> tuple[Objects, Remote]:
        make_repository(tmp_path / "own")
        mine = Git(tmp_path / "own", **how)  # type: ignore[arg-type]
        all_.append(Objects(mine))
        url = f"file://{bare}".replace("%", "%25")
        kept = all_[-1] if ours else None
        return all_[-1], Remote(mine, url, "the lab", objects=kept, spared=spared)

    yield one
    for objects in all_:
        objects.close()


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[str]]:
    """The commands of git that ran since it was asked last."""
    file = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(file))
    monkeypatch.setattr(receiving, "TIDIES", 0.0)

    def told() -> set[str]:
        events = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
        found = {event["name"] for event in events if event["event"] == "cmd_name"}
        file.unlink(missing_ok=True)
        return found - {"cat-file", "config", "init"}

    return told


def hook(bare: Path, name: str, script: str) -> None:
    file = bare / "hooks" / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def commit(objects: Objects, text: str, *parents: str, tree: str = EMPTY_TREE) -> str:
    return objects.commit(tree, parents, f"{text}\n", who=WHO, at=1.0)


both = pytest.mark.parametrize("ours", [True, False], ids=["by us", "by git"])


@both
def test_refs_go_from_what_was_expected_to_what_is_wanted(
    opened: Opened, bare: Path, ours: bool
) -> None:
    objects, remote = opened(ours)
    first, second = commit(objects, "first"), commit(objects, "second")
    beat = objects.blob(b"a heartbeat")
    assert remote.push([Swap(ref=A, old="", new=first)])
    assert not remote.push([Swap(ref=A, old="", new=second), Swap(ref=B, old="", new=second)])
    assert not remote.push([Swap(ref=A, old=second, new=first), Swap(ref=B, old=first, new=second)])
    assert not remote.push([Swap(ref=B, old="", new=second)], holding={A: second})
    assert remote.refs("refs/*") == {A: first}
    assert remote.push([Swap(ref=B, old="", new=second)], holding={A: first})
    assert remote.push([Swap(ref=A, old=first, new=beat), Swap(ref=B, old=second, new="")])
    assert remote.push([Swap(ref=A, old=first, new=beat)]), "it is so already"
    assert remote.refs("refs/*") == {A: beat}
    assert git(bare, "fsck", "--strict", "--no-dangling") == ""


def test_neither_git_push_nor_what_it_starts_is_needed(
    opened: Opened, ran: Callable[[], set[str]], bare: Path
) -> None:
    objects, remote = opened()
    ran()
    assert remote.push([Swap(ref=A, old="", new=commit(objects, "x"))])
    assert ran() == BY_US


def test_spared_refs_are_hidden_but_those_that_a_push_is_about(opened: Opened, bare: Path) -> None:
    objects, remote = opened(spared=("refs/benchfleet", "!refs/benchfleet/y"))
    first = commit(objects, "first")
    second = commit(objects, "second", first)
    assert remote.push([Swap(ref=ref, old="", new=first) for ref in (A, B)])
    hook(
        bare, "pre-receive", f"git rev-parse --verify {A} && git rev-parse --verify {B}"
    )  # a hook sees them all
    assert not remote.push([Swap(ref=B, old="", new=second)])
    assert remote.push([Swap(ref=B, old=first, new=second)], holding={A: first})
    assert remote.push([Swap(ref=A, old=first, new="")])
    assert remote.refs("refs/*") == {B: second}


def test_all_that_is_new_arrives_and_nothing_else(
    opened: Opened, bare: Path, tmp_path: Path
) -> None:
    objects, remote = opened()
    blobs = [objects.blob(b"content %d" % number) for number in range(6)]
    old = objects.with_file(EMPTY_TREE, "a/b c/file", blobs[0])
    old = objects.with_file(objects.with_file(old, "a/same/file", blobs[1]), "turns", blobs[2])
    first = commit(objects, "first", tree=old)
    assert remote.push([Swap(ref="refs/heads/x", old="", new=first)])
    new = objects.with_file(objects.with_file(old, "a/b c/file", blobs[3]), "copy", blobs[1])
    entries = dict(objects.entries(new))
    del entries["turns"]  # a file becomes a folder
    new = objects.with_file(objects.tree(entries), "turns/into/folder", blobs[4])
    between = commit(objects, "between", first, tree=objects.with_file(old, "short", blobs[5]))
    last = commit(objects, "last", between, tree=new)
    before = git(bare, "count-objects")
    assert remote.push([Swap(ref="refs/heads/x", old=first, new=last)])
    assert git(bare, "fsck", "--strict", "--no-dangling") == ""
    assert int(git(bare, "count-objects").split()[0]) - int(before.split()[0]) == 11
    assert git(bare, "ls-tree", "-r", "--name-only", "x").split("\n")[:-1] == [
        "a/b c/file", "a/same/file", "copy", "turns/into/folder"
    ]  # fmt: skip


def test_links_and_submodules_are_sent_as_they_are(
    opened: Opened, bare: Path, tmp_path: Path
) -> None:
    objects, remote = opened()
    entry = f"120000 blob {objects.blob(b'/etc/passwd')}\tlink\n160000 commit {'1' * 40}\tsub\n"
    tree = subprocess.run(
        ["git", "--git-dir", str(tmp_path / "own"), "mktree", "--missing"],
        input=entry.encode(), capture_output=True, check=True,
    ).stdout.decode().strip()  # fmt: skip
    assert remote.push([Swap(ref="refs/heads/x", old="", new=commit(objects, "x", tree=tree))])
    assert git(bare, "cat-file", "blob", "x:link") == "/etc/passwd"


@pytest.mark.parametrize(("name", "most"), [("MOST", 2), ("LARGE", 100)])
def test_much_is_left_to_git(
    opened: Opened, bare: Path, ran: Callable[[], set[str]], monkeypatch: pytest.MonkeyPatch,
    name: str, most: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(parcel, name, most)
    objects, remote = opened()
    tree = objects.with_file(EMPTY_TREE, "a/b", objects.blob(b"x" * 101))
    ran()
    assert remote.push(
        [Swap(ref="refs/heads/x", old="", new=(new := commit(objects, "x", tree=tree)))]
    )
    assert {"push", "pack-objects"} <= ran()
    assert remote.refs("refs/*") == {"refs/heads/x": new}


@both
def test_what_is_not_here_is_not_pushed(opened: Opened, ours: bool) -> None:
    objects, remote = opened(ours)
    new = commit(objects, "x", tree=objects.tree({"lacking": ("1" * 40, False)}))
    with pytest.raises(GitError):
        remote.push([Swap(ref=A, old="", new=new)])
    assert remote.refs("refs/*") == {}


@both
@pytest.mark.parametrize(
    ("name", "script", "says"),
    [
        ("pre-receive", "echo closed for now >&2; exit 1", r"hook declined.*closed for now"),
        ("update", f"echo about $1 >&2; test $1 != {B}", rf"hook declined.*about {B}"),
    ],
)  # fmt: skip
def test_a_hook_that_refuses_is_told_in_its_words(
    opened: Opened, bare: Path, ours: bool, name: str, script: str, says: str
) -> None:
    hook(bare, name, script)
    objects, remote = opened(ours)
    new = commit(objects, "x")
    with pytest.raises(GitDenied, match=rf"the lab refuses it: .*{says}"):
        remote.push([Swap(ref=A, old="", new=new), Swap(ref=B, old="", new=new)])
    assert remote.refs("refs/*") == {}


@both
def test_a_repository_that_cannot_take_the_objects_is_away(
    opened: Opened, bare: Path, ours: bool
) -> None:
    git(bare, "config", "receive.maxInputSize", "20")
    objects, remote = opened(ours)
    with pytest.raises(GitAway, match=r"the lab cannot take it: .*exceeds maximum"):
        remote.push([Swap(ref=A, old="", new=commit(objects, "x"))])


@both
def test_a_ref_that_is_locked_is_named(opened: Opened, bare: Path, ours: bool) -> None:
    objects, remote = opened(ours)
    assert remote.push([Swap(ref=A, old="", new=commit(objects, "x"))])
    (bare / f"{B}.lock").touch()
    assert not remote.push([Swap(ref=B, old="", new=commit(objects, "y"))])
    assert "refs/benchfleet/x/b.lock': File exists" in remote.refused


@both
def test_a_repository_of_somebody_else_is_refused(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    opened(ours)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("HOME", "/nowhere")
    objects, remote = opened(ours)
    with pytest.raises(GitDenied, match=r"the lab: .*dubious ownership"):
        remote.push([Swap(ref=A, old="", new=commit(objects, "x"))])


@both
def test_one_that_takes_no_atomic_pushes_is_refused(opened: Opened, bare: Path, ours: bool) -> None:
    git(bare, "config", "receive.advertiseAtomic", "false")
    objects, remote = opened(ours)
    with pytest.raises(GitError, match="the lab takes no atomic pushes"):
        remote.push([Swap(ref=A, old="", new=commit(objects, "x"))])


@both
def test_a_server_that_is_killed_or_gone_is_away(opened: Opened, bare: Path, ours: bool) -> None:
    objects, remote = opened(ours)
    hook(bare, "pre-receive", "kill -9 $PPID")
    swap = Swap(ref=A, old="", new=commit(objects, "x"))
    with pytest.raises(GitAway, match=r"the lab: \w+"):
        remote.push([swap])
    (bare / "hooks" / "pre-receive").unlink()
    assert remote.push([swap])
    bare.rename(bare.with_name("elsewhere"))
    with pytest.raises(GitAway, match=r"the lab: .*does not appear to be a git repository"):
        remote.push([swap])


@both
def test_a_hook_that_hangs_is_given_up_and_no_ref_stays_locked(
    opened: Opened, bare: Path, tmp_path: Path, ours: bool
) -> None:
    hook(bare, "reference-transaction", f"echo $$ > {tmp_path}/pid\nexec sleep 600")
    objects, remote = opened(ours, timeout=1.0)
    swap = Swap(ref=A, old="", new=commit(objects, "x"))
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


@pytest.mark.parametrize("setting", ["insteadOf", "pushInsteadOf", "pushOption"])
def test_what_the_user_set_about_pushes_holds(
    opened: Opened, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str,
    ran: Callable[[], set[str]],
) -> None:  # fmt: skip
    other = make_bare(tmp_path / "other.git")
    settings = f'[url "file://{other}"]\n{setting} = file://{tmp_path}/lab\n'
    if setting == "pushOption":
        settings = "[push]\npushOption = quick\n"
        git(bare, "config", "receive.advertisePushOptions", "true")
    (tmp_path / ".gitconfig").write_text(settings)
    monkeypatch.setenv("HOME", str(tmp_path))
    objects, remote = opened()
    ran()
    with pytest.raises(GitError) if setting != "pushOption" else nullcontext():
        remote.push([Swap(ref=A, old="", new=commit(objects, "x"))])
    assert "push" in ran()


def test_a_setting_about_another_place_changes_nothing(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Callable[[], set[str]]
) -> None:
    (tmp_path / ".gitconfig").write_text('[url "git@example.org:"]\ninsteadOf = https://x.org/\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    objects, remote = opened()
    ran()
    assert remote.push([Swap(ref=A, old="", new=commit(objects, "x"))])
    assert ran() == BY_US


@pytest.mark.parametrize("cares", ["true", "false"])
def test_the_repository_is_tidied_now_and_then_unless_it_wants_no_care(
    opened: Opened, bare: Path, monkeypatch: pytest.MonkeyPatch, ran: Callable[[], set[str]],
    cares: str,
) -> None:  # fmt: skip
    git(bare, "config", "receive.autoGC", cares)
    monkeypatch.setattr(receiving, "TIDIES", 1.0)
    objects, remote = opened()
    first, second = commit(objects, "first"), commit(objects, "second")
    ran()
    assert remote.push([Swap(ref=ref, old="", new=first) for ref in (A, B)])
    assert bool(ran() & {"gc", "maintenance"}) == (cares == "true")
    assert (bare / A).exists() == (cares == "false")
    assert remote.refs("refs/*") == {A: first, B: first}
    assert not remote.push([Swap(ref=A, old="", new=second)])
    assert remote.push([Swap(ref=A, old=first, new=second), Swap(ref=B, old=first, new="")])
    assert remote.refs("refs/*") == {A: second}
