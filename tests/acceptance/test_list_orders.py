"""Lists of phases that people edit by hand while workers run their cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.results.stores.phase_lists import update_lists
from benchfleet.study import open_study
from repositories import git, make_bare

from .conftest import User, end_of, until
from .hurried import start_hurried

SETTINGS = """\
from benchfleet import PhaseDefinition
PHASES = [
    PhaseDefinition("one", ["dense"], ["first", "second", "third", "fourth"], ["m"]),
    PhaseDefinition("two", ["dense"], ["fifth"], ["m"]),
]
RUN = ["python", "play.py", "{benchmark}"]
"""
PLAY = """\
import sys
import time
from pathlib import Path

with open("log", "a") as log:
    print(sys.argv[1], file=log)
while Path(f"hold-{sys.argv[1]}").exists():
    time.sleep(0.05)
if Path(f"fail-{sys.argv[1]}").exists():
    sys.exit(7)
print('{"score": 1}')
"""
LEVELS = ("first", "second", "third", "fourth")


def name(level: str) -> str:
    """The line of a cell."""
    return f"{level}_m_dense_0.json"


def commit(repo: Path, message: str) -> None:
    me = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgSign=false")
    git(repo, *me, "commit", "-q", "-a", "-m", message)


class Lists:
    """A person's checkout of the repository with the lists."""

    def __init__(self, bare: Path, repo: Path) -> None:
        self._bare, self._repo = bare, repo
        git(bare.parent, "clone", "-q", str(bare), str(repo))

    def read(self, phase: str = "one") -> list[str]:
        return git(self._bare, "show", f"main:data/phase/{phase}.txt").splitlines()

    def tips(self) -> str:
        """The commits of the lists, and of those that were read last."""
        return git(self._bare, "rev-parse", "main", "refs/benchfleet-lists/study/main")

    def edit(self, lines: Sequence[str], phase: str = "one") -> None:
        """Change a list as people do, with a pull, a commit and a push."""
        git(self._repo, "pull", "-q", "--rebase")
        (self._repo / f"data/phase/{phase}.txt").write_text("".join(f"{one}\n" for one in lines))
        commit(self._repo, "by hand")
        git(self._repo, "push", "-q")


@pytest.fixture
def at(user: User) -> tuple[str, str, str]:
    user.write(SETTINGS, "study.py")
    user.write(PLAY, "play.py")
    bare = make_bare(user.folder / "lab.git")
    repo = user.folder / "seed"
    git(user.folder, "clone", "-q", str(bare), str(repo))
    git(repo, "checkout", "-q", "-b", "main")
    (repo / "data" / "runs").mkdir(parents=True)
    (repo / "data" / "runs" / "readme").write_text("results\n")
    git(repo, "add", "-A")
    commit(repo, "begin")
    git(repo, "push", "-q", "origin", "main")
    at = "study.py", "--ledger", "git+file:lab.git"
    user.run("phase", "generate", *at, "--repo", "seed", "--branch", "main")
    return at


@pytest.fixture
def lists(user: User, at: object) -> Lists:
    return Lists(user.folder / "lab.git", user.folder / "checkout")


def started(user: User) -> list[str]:
    """The levels whose script was started."""
    log = user.folder / "log"
    return log.read_text().split() if log.exists() else []


def states(user: User) -> dict[str, str]:
    ledger = open_study(
        load_campaign(user.folder / "study.py"), ledger=f"git+file://{user.folder}/lab.git"
    ).open_existing_ledger()
    assert ledger is not None
    with closing(ledger):
        return {record.id.split("/")[2].split("_")[0]: record.state for record in ledger.cells()}


@pytest.mark.parametrize("profile", ["local", "hosted"])
def test_done_lines_leave_a_list_while_cells_run_and_edits_are_orders(
    user: User, at: tuple[str, ...], lists: Lists, profile: str
) -> None:
    assert lists.read() == [name(level) for level in LEVELS]
    holds = {level: user.write("", f"hold-{level}") for level in LEVELS}
    words = (*at[:2], f"{at[-1]}?profile={profile}", "--cpu-slots", "1", "--only", "phases=one")
    run = start_hurried(user, "run", *words)
    until(lambda: len(started(user)) == 1)
    (done,) = started(user)
    holds[done].unlink()
    until(lambda: name(done) not in lists.read())
    until(lambda: len(started(user)) == 2)
    (running,) = set(started(user)) - {done}
    struck, left = (level for level in LEVELS if level not in (done, running))
    lists.edit([name(running), name(left)])
    until(lambda: states(user)[struck] == "cancelled")
    lists.edit([name(left), name(done), name("what")])
    until(lambda: len(lists.read()) == 5)
    for hold in holds.values():
        hold.unlink(missing_ok=True)
    end_of(run, code=1)  # one is cancelled
    ended = dict.fromkeys(LEVELS, "success") | {struck: "cancelled"}
    assert states(user) == {**ended, "fifth": "pending"}
    assert sorted(lists.read()) == sorted([
        f"# refused: {name(done)}: it is done; `benchfleet plan --explain` says what would "
        "change that",
        f"# refused: {name(running)}: it runs now; `benchfleet cancel` ends it",
        f"# refused: {name('what')}: it is the name of no cell of the campaign",
    ])  # fmt: skip
    assert lists.read("two") == [name("fifth")]
    assert struck not in started(user)


def test_what_was_changed_while_nobody_ran_is_followed_by_the_next_run(
    user: User, at: tuple[str, ...], lists: Lists
) -> None:
    user.write("", "fail-first")
    user.run("run", *at, "--cpu-slots", "1", "--only", "benchmarks=first", code=1)
    assert states(user)["first"] == "failed"
    (user.folder / "fail-first").unlink()
    everything = lists.read()
    lists.edit([line for line in everything if line != name("first")])  # a failed cell: no order
    user.run("phase", "generate", *at, "--repo", "seed", "--branch", "main")
    assert lists.read() == everything
    assert states(user)["first"] == "failed"
    lists.edit([name("fourth"), name("second")])  # the third is struck, the fourth moved up
    output = user.run("phase", "generate", *at, "--repo", "seed", "--branch", "main")
    assert "is cancelled: it was struck from a list" in output.stderr
    assert "1 cell moved up" in output.stderr
    user.run("run", *at, "--cpu-slots", "1", "--only", "phases=one", code=1)
    assert started(user) == ["first", "fourth", "second"]


def test_merge_and_generate_know_lines_without_their_ending(
    user: User, at: tuple[str, ...], lists: Lists
) -> None:
    user.run("run", *at, "--cpu-slots", "1", "--only", "benchmarks=first")
    stems = [name(level).removesuffix(".json") for level in LEVELS]
    lists.edit([*stems, "what_0"])
    user.run("merge", *at)
    assert lists.read() == [*stems[1:], "what_0"]
    written = user.json("phase", "generate", *at, "--repo", "seed")  # another branch
    assert written["unknown"] == {}
    git(user.folder / "seed", "remote", "remove", "origin")
    git(user.folder / "seed", "fetch", "-q", "../lab.git", "main:mine")
    written = user.json("phase", "generate", *at, "--repo", "seed", "--branch", "mine")
    assert written["unknown"] == {"one": ["what_0"]}


def test_a_list_with_conflict_markers_waits_alone(
    user: User, at: tuple[str, ...], lists: Lists
) -> None:
    generate = ("phase", "generate", *at, "--repo", "seed", "--branch", "main")
    user.write(SETTINGS.replace('["fifth"]', '["fifth", "sixth"]'), "study.py")
    user.run(*generate)
    conflict = ["<<<<<<< HEAD", name("fifth"), "=======", ">>>>>>> theirs"]
    lists.edit(conflict, "two")
    lists.edit([name(level) for level in LEVELS if level != "third"])
    hold = user.write("", "hold-first")
    words = ("--cpu-slots", "1", "--only", "benchmarks=!sixth")
    run = start_hurried(user, "run", *at, *words)
    until(lambda: states(user)["third"] == "cancelled")
    hold.unlink()
    printed = "".join(run.communicate(timeout=240))
    assert run.returncode == 1, printed  # one is cancelled
    notice = "the list data/phase/two.txt on main waits: it has conflict markers; resolve them"
    assert printed.count(notice) == 1
    assert sorted(started(user)) == ["fifth", "first", "fourth", "second"]
    assert (lists.read(), lists.read("two")) == ([], conflict)
    assert states(user)["sixth"] == "pending"
    tips = lists.tips()
    assert notice in user.run(*generate, code=2).stderr
    assert lists.tips() == tips
    merged = user.run("merge", *at).stdout
    assert "waits    data/phase/two.txt on main: it has conflict markers; resolve them" in merged
    assert lists.read("two") == conflict
    lists.edit([name("fifth")], "two")  # the sixth is struck
    user.run(*generate)
    assert lists.read("two") == []
    assert states(user)["sixth"] == "cancelled"


def test_a_conflict_in_a_list_that_was_never_read_cancels_nothing(
    user: User, at: tuple[str, ...], lists: Lists
) -> None:
    git(user.folder / "lab.git", "update-ref", "-d", "refs/benchfleet-lists/study/main")
    lists.edit(["<<<<<<< HEAD", name("first"), "=======", name("third"), ">>>>>>> theirs"])
    words = ("run", *at, "--cpu-slots", "1", "--only", "benchmarks=fifth")
    user.run(*words)
    assert lists.read("two") == []
    lists.edit([name("first"), name("fifth")])
    user.run(*words)
    assert lists.read() == [name("first")]
    assert states(user) == {**dict.fromkeys(LEVELS, "pending"), "fifth": "success"}


def test_a_second_campaign_takes_no_line_of_the_first_for_an_order(
    user: User, at: tuple[str, ...], lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cells have the same names, and the first one's run removes what is done."""
    monkeypatch.chdir(user.folder)
    user.write(SETTINGS, "other.py")
    other = ("other.py", *at[1:])
    user.run("run", *other, "--cpu-slots", "1", "--only", "phases=two")
    user.run("run", *at, "--cpu-slots", "1", "--only", "benchmarks=fourth")
    study = open_study(load_campaign(user.folder / "other.py"), ledger=at[-1])
    ledger = study.open_existing_ledger(writes=True)
    assert ledger is not None
    with closing(ledger):
        files = ledger.shared_files()
        assert files is not None
        with closing(files.objects):
            assert update_lists(files, "other", ledger) == []
    assert lists.read() == [name(level) for level in LEVELS[:3]]
    user.run("run", *other, "--cpu-slots", "1", "--only", "phases=one")
    assert len(started(user)) == 2 + len(LEVELS)
    user.run("merge", *other)
    assert lists.read() == [name(level) for level in LEVELS[:3]]
    refused = user.run("phase", "generate", *other, "--repo", "seed", "--branch", "main", code=None)
    assert refused.returncode == 2
    assert "belong to the campaign 'study'" in refused.stderr
    user.run("phase", "generate", *other, "--repo", "seed")  # a branch of its own
    (ref,) = re.findall(r"delete (\S+) on the remote", refused.stderr)
    git(user.folder / "seed", "push", "-q", "origin", "--delete", ref)
    user.run("phase", "generate", *other, "--repo", "seed", "--branch", "main")
