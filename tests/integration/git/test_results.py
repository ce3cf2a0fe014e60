"""Results that travel in a git repository: as they were sealed, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.errors import GitAway, GitError, ResultsError
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.process import Git, init_bare_repository
from benchfleet.git.remote import RefUpdate, Remote
from benchfleet.results.incoming_check import refusal
from benchfleet.results.layout import LEFT_OUT, Layout
from benchfleet.results.stores.git import (
    GitResultWriter,
    GitStore,
    extract,
    fetch_branches,
    result_path,
)
from benchfleet.results.stores.git_merge import Done, merge_branches
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing import sample_cell
from repositories import git, make_bare

CELL = sample_cell(repeats=True, repeat=2)
LEASE = Lease(fingerprint=CELL.fingerprint, attempt=1, token=1, expires_in=60.0)
PATH = CELL.path(marked=False)


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    init_bare_repository(tmp_path / "own.git")
    found = Objects(Git(tmp_path / "own.git"))
    yield found
    found.close()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "results")


def sealed(layout: Layout, big: bytes = b"") -> Outcome:
    folder = AttemptFolder(layout.attempt(LEASE))
    if big:
        folder.append("big.bin", big)
    score = {"overall": 0.5, "per_sample": [], "tasks": {}, "summary": {}}
    found = folder.seal(CELL, PATH, Verdict(score=score, seconds={"load": 1.5}, provenance={}))
    return Outcome(
        state="success", digest=found.digest, host="lab2", device="cpu:0", seconds={"load": 1.5}
    )


def carried(objects: Objects, layout: Layout, outcome: Outcome, large: int = 10_000) -> str:
    added = GitResultWriter(layout, "my study", large)(objects, LEASE, outcome)
    assert added
    return objects.with_all(EMPTY_TREE, added)


def test_a_result_comes_out_of_the_repository_as_it_was_sealed(
    objects: Objects, layout: Layout, tmp_path: Path
) -> None:
    outcome = sealed(layout)
    tree = carried(objects, layout, outcome)
    place = result_path("my study", PATH)
    assert place == f"results/my study/{PATH}"
    assert extract(objects, tree, place, tmp_path / "out", outcome.digest) == []
    was = {file.name: file.read_bytes() for file in layout.attempt(LEASE).iterdir()}
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == was
    found = objects.lookup(tree, "runs/my study/tiny/benchmark-0_tiny_dense_2.json")
    assert found is not None
    short = json.loads(objects.read(found[0])[1])
    assert short["run"] == {
        "configuration": "dense",
        "model": "tiny",
        "level": "benchmark-0",
        "rerun": 2,
    }
    assert (short["hostname"], short["load_time_s"], short["result"]) == ("lab2", 1.5, place)


def test_of_several_attempts_of_one_name_the_one_that_was_finished_is_carried(
    objects: Objects, layout: Layout, tmp_path: Path
) -> None:
    """Such as one of a ledger before this one, and one that sealed something else since."""
    AttemptFolder(layout.attempt(LEASE)).close()
    outcome = sealed(layout, big=b"more")
    sealed(layout)
    tree = carried(objects, layout, outcome)
    assert (
        extract(objects, tree, result_path("my study", PATH), tmp_path / "out", outcome.digest)
        == []
    )


def test_a_large_file_stays_on_its_host_and_is_named(
    objects: Objects, layout: Layout, tmp_path: Path
) -> None:
    outcome = sealed(layout, big=b"x" * 20_000)
    tree = carried(objects, layout, outcome)
    place = result_path("my study", PATH)
    output = objects.lookup(tree, f"{place}/{LEFT_OUT}")
    assert output is not None
    left = json.loads(objects.read(output[0])[1])
    assert (left["big.bin"]["bytes"], left["big.bin"]["host"]) == (20_000, "lab2")
    assert objects.lookup(tree, f"{place}/big.bin") is None
    assert extract(objects, tree, place, tmp_path / "out", outcome.digest) == ["big.bin"]
    assert objects.lookup(carried(objects, layout, outcome, 50_000), f"{place}/big.bin")


def test_a_result_of_which_files_stayed_behind_is_refused_with_their_host(
    objects: Objects, layout: Layout, tmp_path: Path
) -> None:
    """Also where what names the host is no such list."""
    outcome = sealed(layout, big=b"x" * 200_000)
    tree = carried(objects, layout, outcome)
    came = tmp_path / PATH
    extract(objects, tree, result_path("my study", PATH), came, outcome.digest)
    asked = tmp_path, PATH, CELL.fingerprint, outcome.digest
    assert refusal(*asked) == "big.bin is missing"
    (came / LEFT_OUT).write_text("[1]")
    assert refusal(*asked) == f"{LEFT_OUT} is not in its seal"
    (came / LEFT_OUT).write_text('{"big.bin": {"bytes": 200000, "host": "lab2"}}')
    assert refusal(*asked) == "big.bin (0.2 MB) stayed on lab2: too large for the repository"


def test_what_is_not_as_it_was_sealed_is_refused(
    objects: Objects, layout: Layout, tmp_path: Path
) -> None:
    outcome = sealed(layout)
    place = result_path("my study", PATH)
    tree = carried(objects, layout, outcome)
    forged = objects.with_file(tree, f"{place}/metrics.json", objects.blob(b'{"overall": 1}'))
    with pytest.raises(ResultsError, match=r"metrics\.json differs from its seal"):
        extract(objects, forged, place, tmp_path / "one", outcome.digest)
    with pytest.raises(ResultsError, match="differs from the result"):
        extract(objects, tree, place, tmp_path / "two", "0" * 64)
    with pytest.raises(ResultsError, match="is not in the repository"):
        extract(objects, tree, f"{place}/more", tmp_path / "three", outcome.digest)
    assert not (tmp_path / "two").exists()


def test_a_fetched_result_that_was_tampered_with_is_refused_with_the_real_reason(
    objects: Objects, layout: Layout, tmp_path: Path
) -> None:
    outcome = sealed(layout, big=b"x" * 2000)
    tree, place = carried(objects, layout, outcome), result_path("my study", PATH)
    seal = (layout.attempt(LEASE) / "cell.json").read_bytes()
    files = json.loads(seal)["files"]
    assert "metrics.json" in files
    reasons = {name: f"{name} is not as it was sealed" for name in files}
    reasons["cell.json"] = "its cell.json is not the one that the ledger has"
    for number, (name, why) in enumerate(reasons.items()):
        forged = seal.replace(b"1.5", b"1.4") if name == "cell.json" else b"forged"
        new = objects.with_file(tree, f"{place}/{name}", objects.blob(forged))
        tip = objects.commit(new, (), "forge it\n", who="me <me@example.org>", at=1.0)
        bare = make_bare(tmp_path / f"{number}" / "lab.git")
        with pushed(objects, bare, tip) as (theirs, there):
            store, into = GitStore("my study", there, theirs, "the lab"), tmp_path / f"into{number}"
            store.expect({PATH: outcome.digest})
            store.fetch([PATH], into)
        assert refusal(into, PATH, CELL.fingerprint, outcome.digest) == why


def test_an_attempt_that_is_not_what_was_finished_is_not_carried(
    objects: Objects, layout: Layout
) -> None:
    carrier = GitResultWriter(layout, "my study", 10_000)
    failed = Outcome(state="failed")
    assert carrier(objects, LEASE, failed) == {}
    sealed(layout)
    other = Outcome(state="success", digest="0" * 64)
    with pytest.raises(GitError, match="the seal differs"):
        carrier(objects, LEASE, other)


@contextmanager
def pushed(objects: Objects, bare: Path, tip: str) -> Iterator[tuple[Objects, Remote]]:
    """A machine's branch, and somebody else's repository to bring it to."""
    remote = Remote(objects.git, f"file://{bare}", "the lab")
    assert remote.push([RefUpdate(ref="refs/heads/machine/lab", old="", new=tip)])
    init_bare_repository(bare.parent / "theirs.git")
    with closing(Objects(Git(bare.parent / "theirs.git"))) as theirs:
        yield theirs, Remote(theirs.git, f"file://{bare}", "the lab")


def test_files_that_an_earlier_fetch_left_out_come_with_their_branch(
    objects: Objects, layout: Layout, tmp_path: Path
) -> None:
    bare, who = make_bare(tmp_path / "lab.git"), "me <me@example.org>"
    tree = carried(objects, layout, sealed(layout))
    first = objects.commit(tree, (), "finish it\n", who=who, at=1.0)
    more = objects.with_file(tree, "more", objects.blob(b"more"))
    tip = objects.commit(more, (first,), "somebody's own\n", who=who, at=2.0)
    with pushed(objects, bare, tip) as (theirs, there):
        there.fetch([first], depth=1, without_files=True)
        fetch_branches(there, theirs, there.refs("refs/heads/machine/*"))
        bare.rename(tmp_path / "away.git")
        listed = git(tmp_path / "theirs.git", "ls-tree", "-r", tip).split("\n")
        assert all(theirs.has(line.split()[2]) for line in listed if line)


def test_branches_that_were_fetched_before_are_not_fetched_again(
    objects: Objects, layout: Layout, tmp_path: Path
) -> None:
    bare = make_bare(tmp_path / "lab.git")
    tree = carried(objects, layout, sealed(layout))
    tip = objects.commit(tree, (), "finish it\n", who="me <me@example.org>", at=1.0)
    with pushed(objects, bare, tip) as (theirs, there):
        tips = there.refs("refs/heads/machine/*")
        fetch_branches(there, theirs, tips)
        assert theirs.commit_of(tip).tree == tree
        bare.rename(tmp_path / "away.git")
        fetch_branches(there, theirs, tips)
        with pytest.raises(GitAway):
            fetch_branches(there, theirs, {"refs/heads/machine/other": "1" * 40})


def test_an_older_result_in_main_stays_and_is_named_until_a_branch_has_the_ledgers(
    objects: Objects, layout: Layout, tmp_path: Path
) -> None:
    remote = Remote(objects.git, make_bare(tmp_path / "lab.git").as_uri(), "the lab")
    outcome = sealed(layout)
    tree = carried(objects, layout, outcome)
    commit = objects.commit(tree, (), "finish\n", who="me <me@example.org>", at=1.0)
    ref = "refs/heads/machine/lab2"
    remote.push([RefUpdate(ref=ref, old="", new=commit)])
    done = Done(id=CELL.id, path=PATH, digest=outcome.digest)
    merged = merge_branches(remote, objects, "my study", [done], at=2.0)
    assert (len(merged.entries), merged.refused) == (1, {})
    again = replace(done, digest="0" * 64)
    merged = merge_branches(remote, objects, "my study", [again], at=3.0)
    assert (merged.entries, merged.commit) == ([], "")
    assert "no branch has the one of the ledger" in merged.refused[PATH]
