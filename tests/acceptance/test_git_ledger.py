"""A campaign whose ledger is a git repository, as a user has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repositories import git, make_bare

from .conftest import MOCK, User, end_of, samples_kept, until

HELD = """\
campaign: study
defaults: {adapter: mock}
matrix:
  models: [{name: m1, model: x}]
  configs: {dense: null}
  benchmarks: [{_hostile: {act: wait, shared: HOLD, samples: 3, at: 1}}]
"""


@pytest.fixture
def bare(user: User) -> Path:
    return make_bare(user.folder / "lab.git")


def test_every_verb_works_through_it(user: User, bare: Path) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--ledger", "git+file:lab.git")
    assert user.json("status", *at)["pending"] == 2
    assert git(bare, "for-each-ref") == ""
    user.run("run", *at, "--cpu-slots", "1")
    published = user.published()
    assert len(published) == 2
    for verb in ("run", "status", "report", "failures", "plan"):
        user.run(verb, *at)
    assert user.json("cancel", *at, "--yes")["cancelled"] == []
    user.run("retry", *at)
    assert user.json("ledger", "check", *at)["faults"] == []
    assert user.json("ledger", "init", *at) == {
        "ledger": "git+file:lab.git",
        "made": False,
        "rights": {},
    }
    assert user.json("status", *at)["success"] == 2
    assert user.published() == published
    assert not list(user.folder.rglob("ledger.db"))
    printed = git(bare, "log", "--format=%s", "--glob=refs/heads/machine").splitlines()
    assert len(printed) == 2
    assert all(line.startswith("finish mock_benchmark_") for line in printed)
    user.run("ledger", "copy", *at, "--to", "sqlite:copy.db")
    copied = user.json("status", "study.yaml", "--ledger", "sqlite:copy.db")
    assert (copied["success"], copied["total"]) == (2, 2)
    back = ("ledger", "copy", "study.yaml", "--ledger", "sqlite:copy.db", "--to")
    assert "is not empty: it has 2 cells" in user.run(*back, at[2], code=3).stderr
    git(bare, "init", "--quiet", "--bare", "other.git")
    other = f"git+file:{bare / 'other.git'}"
    user.run(*back, other)
    output = user.json("status", "study.yaml", "--ledger", other)
    assert (output["success"], output["total"]) == (2, 2)
    merged = user.json("merge", "study.yaml", "--ledger", other, "--results", "elsewhere")
    assert (len(merged["came"]), len(merged["branch"]["entries"])) == (2, 2)


@pytest.mark.parametrize(
    "order",
    [
        ("release", "--host", "lab2"),
        ("reap", "--now", "--host", "lab2"),
        ("reassign", "--failed-machine", "lab2"),
    ],
    ids=lambda order: order[0],
)
def test_a_cell_that_is_taken_from_a_live_machine_stops_before_its_next_heartbeat(
    user: User, bare: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...]
) -> None:
    """The next heartbeat is six minutes away; `until` waits for one."""
    hold = user.write("", "hold")
    user.write(HELD.replace("HOLD", str(hold)))
    at = ("study.yaml", "--ledger", "git+file:lab.git")
    monkeypatch.setenv("BENCHFLEET_HOST", "lab2")
    worker = user.start("work", *at, "--cpu-slots", "1")
    monkeypatch.setenv("BENCHFLEET_HOST", "lab1")

    def attempts() -> list[str]:
        return sorted(one.name[0] for one in (user.results / ".attempts").glob("*/*-*"))

    until(lambda: samples_kept(user) == 1)
    verb, *chosen = order
    user.run(verb, *at, "--results", "elsewhere", *chosen, "--yes")
    until(lambda: attempts()[-1] == "2")  # it may claim the cell again
    hold.unlink()
    output = end_of(worker)
    assert "m1/dense/_hostile  released, or held elsewhere now" in output
    assert user.json("status", *at)["success"] == 1


@pytest.mark.parametrize("name", ["h" * 300, "..."], ids=["long", "dots"])
def test_an_invalid_host_name_is_refused_in_one_sentence(
    user: User, bare: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    user.write(MOCK)
    monkeypatch.setenv("BENCHFLEET_HOST", name)
    for verb in ("run", "status"):
        error = user.run(verb, "study.yaml", "--ledger", "git+file:lab.git", code=2).stderr
        (line,) = error.splitlines()
        assert f"invalid host name '{name[:80]}' from BENCHFLEET_HOST: use letters" in line


def test_another_host_finds_everything_done(user: User, bare: Path) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--ledger", f"git+file://{bare}")
    user.run("run", *at, "--cpu-slots", "1")
    other = user.json("status", *at, "--results", "elsewhere")
    assert other["success"] == 2
    output = user.run("run", *at, "--results", "elsewhere", "--cpu-slots", "1", code=None).stdout
    assert "2 done (2 reused)" in output
    merged = user.json("merge", *at, "--results", "elsewhere")
    assert (merged["done"], len(merged["came"]), merged["missing"]) == (2, 2, {})
    here, there = user.results, user.folder / "elsewhere" / "study"
    for file in here.glob("m*/**/*"):
        if file.is_file():
            assert (there / file.relative_to(here)).read_bytes() == file.read_bytes()
    assert git(bare, "for-each-ref", "--format=%(refname)", "refs/heads/machine").count("\n") == 1


def test_the_users_checkout_and_index_are_left_as_they_are(user: User, bare: Path) -> None:
    user.write(MOCK)
    name = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    git(user.folder, "init", "-q", "-b", "main")
    git(user.folder, *name, "commit", "-q", "--allow-empty", "-m", "mine")
    git(user.folder, "add", "study.yaml")
    (user.folder / ".gitignore").write_text("benchmark_results\nlab.git\n")
    before = git(user.folder, "status", "--porcelain"), git(user.folder, "for-each-ref")
    index = (user.folder / ".git" / "index").read_bytes()
    at = "--ledger", "git+file:lab.git?large=300B"
    ended = user.run("run", "study.yaml", *at, "--cpu-slots", "1")
    assert "results here have files over 0.0003 MB" in ended.stdout
    assert (user.folder / ".git" / "index").read_bytes() == index
    after = git(user.folder, "status", "--porcelain"), git(user.folder, "for-each-ref")
    assert after == before
    assert "GIT_DIR" not in os.environ


def test_a_worker_without_the_campaigns_file_takes_what_the_repository_has(
    user: User, bare: Path
) -> None:
    user.write(MOCK)
    at = ("--ledger", "git+file:lab.git")
    user.run("run", "study.yaml", *at, "--cpu-slots", "1", "--only", "models=m1")
    assert len(user.published()) == 1
    retried = user.json("cancel", "study.yaml", *at, "--only", "models=m2", "--yes")
    assert len(retried["cancelled"]) == 1
    user.run("retry", "study.yaml", *at, "--cancelled")
    (user.folder / "study.yaml").unlink()
    (user.folder / "runner_hostname.txt").write_text("lab2\n")
    user.run("work", *at, "--cpu-slots", "1", "--results", "elsewhere", code=None)
    branches = git(bare, "for-each-ref", "--format=%(refname:short)", "refs/heads/machine").split()
    assert [name.startswith("machine/lab2-") for name in branches].count(True) == 1
    assert len(branches) == 2
    near = user.run("work", *at, "--campaign", "stduy", code=None).stderr
    assert "did you mean 'study'" in near


@pytest.mark.parametrize(
    ("url", "output", "code"),
    [
        ("git+file:nothing.git", "git init --bare", 3),
        ("git+file:", "write git+file:///path/to/lab.git", 2),
        ("git+sssh://nas/lab.git", "did you mean 'git+ssh'", 2),
        ("git+file:lab.git?profil=local", "no option 'profil'", 2),
        ("git+file:lab.git?large=lots", "write large=20MB", 2),
    ],
)
def test_a_ledger_that_cannot_be_used_is_named_with_what_to_do(
    user: User, url: str, output: str, code: int
) -> None:
    user.write(MOCK)
    refused = user.run("run", "study.yaml", "--ledger", url, code=code)
    assert output in refused.stderr
    assert not user.published()


def test_the_ledger_of_the_last_run_is_named_to_who_forgets_it(user: User, bare: Path) -> None:
    """A new ledger from the results here would run what the others did."""
    user.write(MOCK)
    user.run("run", "study.yaml", "--ledger", "git+file:lab.git")
    asked = user.run("run", "study.yaml", code=3).stderr
    assert (
        f"the last run here used another: add --ledger git+file://{user.folder}/lab.git;" in asked
    )
    refused = user.run("ledger", "rebuild", "study.yaml", code=3).stderr
    assert f"the last run here used the ledger git+file://{user.folder}/lab.git" in refused
    assert not (user.results / "ledger.db").exists()
    named = refused.rpartition("--ledger ")[2].strip()
    rebuilt = user.run("ledger", "rebuild", "study.yaml", "--ledger", named).stdout
    assert "2 results taken in" in rebuilt
    assert "nothing was run" in user.run("run", "study.yaml").stdout
