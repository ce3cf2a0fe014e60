"""``benchfleet merge`` of results that lie in a git repository, onto one branch."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.domain.event import Event
from benchfleet.study import open_study
from repositories import git, make_bare

from .conftest import MOCK, User


@pytest.fixture
def bare(user: User) -> Path:
    return make_bare(user.folder / "lab.git")


def test_large_files_go_to_the_place_that_the_campaign_names_and_come_from_there(
    user: User, bare: Path
) -> None:
    place = user.folder / "nas"
    place.mkdir()
    user.write(f"results: {place.as_uri()}\n{MOCK}")
    at = ("study.yaml", "--ledger", "git+file:lab.git?large=300B", "--only", "models=m1")
    user.run("run", *at, "--cpu-slots", "1", "--results", "here")
    (branch,) = git(bare, "for-each-ref", "--format=%(refname)", "refs/heads/machine").split()
    folder = "results/study/m1/dense/mock_benchmark"
    names = git(bare, "ls-tree", "--name-only", f"{branch}:{folder}").split()
    left = json.loads(git(bare, "show", f"{branch}:{folder}/left_out.json"))
    assert not {*left} & {*names}
    assert left["samples.jsonl"]["place"] == place.as_uri()
    merged = user.json("merge", *at, "--results", "elsewhere")
    assert list(merged["came"].values()) == [place.as_uri()]
    there = user.folder / "elsewhere" / "study" / "m1" / "dense" / "mock_benchmark"
    assert {*left, *names} - {"left_out.json"} <= {file.name for file in there.iterdir()}


def test_results_whose_large_files_are_lost_with_their_host_run_again(
    user: User, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--ledger", "git+file:lab.git?large=300B")
    monkeypatch.setenv("BENCHFLEET_HOST", "lab2")
    user.run("run", *at, "--cpu-slots", "1", "--only", "models=m1")
    shutil.rmtree(user.results)
    monkeypatch.setenv("BENCHFLEET_HOST", "desk")
    missing = user.run("merge", *at, code=1).stdout
    assert "last seen at lab2" in missing
    lost = ("--gone", "--lost-host", "lab2", "--yes")
    (pending,) = user.json("retry", *at, *lost)["pending_again"]
    assert pending == "m1/dense/mock_benchmark"
    user.run("run", *at, "--cpu-slots", "1")
    assert "2 results verified, nothing wrong" in user.run("verify", *at).stdout


def test_a_merge_brings_results_onto_one_branch_whose_lists_runs_keep(
    user: User, bare: Path
) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--ledger", "git+file:lab.git")
    names = [f"mock_benchmark_m{number}_dense_0" for number in (1, 2)]
    seed, name = user.folder / "seed", ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    git(user.folder, "clone", "-q", str(bare), str(seed))
    (seed / "data" / "phase").mkdir(parents=True)
    listed = seed / "data" / "phase" / "one.txt"
    listed.write_text("".join(f"{entry}.json\n" for entry in (*names, "another_m3_dense_0")))
    git(seed, "add", ".")
    git(seed, *name, "commit", "-q", "-m", "what is to do")
    git(seed, "push", "-q", "origin", "HEAD:main", "HEAD:refs/heads/benchfleet/phases")
    user.run("run", *at, "--cpu-slots", "1", "--only", "models=m1")
    assert user.json("merge", *at)["branch"]["entries"] == names[:1]
    user.run("run", *at, "--cpu-slots", "1", "--results", "elsewhere", code=None)
    output = user.json("merge", *at)["branch"]
    assert (output["entries"], output["struck"], output["refused"]) == (names[1:], 0, {})
    assert user.json("merge", *at)["branch"]["commit"] == ""
    for branch in ("main", "benchfleet/phases"):  # where `phase generate` puts them
        assert git(bare, "show", f"{branch}:data/phase/one.txt") == "another_m3_dense_0.json\n"
    files = git(bare, "ls-tree", "-r", "--name-only", "main").splitlines()
    assert {f"runs/study/{entry.split('_')[2]}/{entry}.json" for entry in names} <= set(files)
    assert "results/study/m2/dense/mock_benchmark/cell.json" in files
    printed = git(bare, "log", "--first-parent", "--format=%s", "main").splitlines()
    struck = "strike 1 done line"  # by each run
    assert printed == [
        f"finish {names[1]}", struck, f"finish {names[0]}", struck, "what is to do"
    ]  # fmt: skip
    assert git(bare, "fsck", "--no-dangling", "--no-progress") == ""


def test_a_file_of_the_project_is_never_replaced_by_a_folder_of_results(
    user: User, bare: Path
) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--ledger", "git+file:lab.git", "--only", "models=m1")
    seed, name = user.folder / "seed", ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    git(user.folder, "clone", "-q", str(bare), str(seed))
    (seed / "results").write_text("what we know\n")
    git(seed, "add", ".")
    git(seed, *name, "commit", "-q", "-m", "begin")
    git(seed, "push", "-q", "origin", "HEAD:main")
    user.run("run", *at, "--cpu-slots", "1")
    refused = user.json("merge", *at, code=None)["branch"]["refused"]
    assert list(refused.values()) == [
        "results is a file on main, where results need a folder; rename it"
    ]
    assert git(bare, "show", "main:results") == "what we know\n"


def test_a_result_that_another_machine_made_again_takes_the_place_of_the_damaged_one(
    user: User, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("study.yaml", "--ledger", f"git+file://{bare}")
    users = {name: User(user.folder / name) for name in ("a", "b", "c")}
    for one in users.values():
        one.folder.mkdir()
        one.write(MOCK)

    def as_host(name: str, *words: str, code: int | None = 0) -> str:
        monkeypatch.setenv("BENCHFLEET_HOST", name)
        monkeypatch.setenv("XDG_CACHE_HOME", str(users[name].folder / ".cache"))
        return users[name].run(*words, code=code).stdout

    as_host("a", "run", *at, "--cpu-slots", "1")
    as_host("a", "merge", *at)
    study = open_study(load_campaign(users["a"].folder / "study.yaml"), ledger=at[2])
    with closing(study.open_ledger()) as ledger:
        first = next(record for record in ledger.cells() if "m1" in record.path)
        ledger.record(Event(kind="retry_asked", fingerprint=first.fingerprint))
    as_host("b", "run", *at, "--cpu-slots", "1", code=None)
    made_again = users["b"].results / "m1/dense/mock_benchmark/cell.json"
    assert git(bare, "for-each-ref", "refs/heads/machine").count("\n") == 2
    assert "refused" not in as_host("c", "merge", *at)
    came = users["c"].results / "m1/dense/mock_benchmark/cell.json"
    assert came.read_text() == made_again.read_text()
    in_main = git(bare, "show", "main:results/study/m1/dense/mock_benchmark/cell.json")
    assert json.loads(in_main) == json.loads(made_again.read_text())
    summary = git(bare, "show", "main:runs/study/m1/mock_benchmark_m1_dense_0.json")
    assert json.loads(summary)["hostname"] == "b"
    outdated = as_host("a", "verify", *at, code=1)
    assert f"outdated  {first.path}  a whole result of this cell" in outdated
    assert "`benchfleet merge study.yaml" in outdated
    as_host("a", "verify", *at, "--repair", "--yes")
    assert json.loads(as_host("a", "status", *at, "--json"))["success"] == 2
    os.rename(users["a"].results / ".evidence", users["a"].folder / "evidence")
    shutil.copytree(
        next(users["a"].folder.glob(f"evidence/*/{first.path}")), users["a"].results / first.path
    )
    as_host("a", "merge", *at)
    assert (users["a"].results / first.path / "cell.json").read_text() == made_again.read_text()
    as_host("a", "verify", *at)


def test_campaigns_and_versions_in_one_repository_have_summaries_of_their_own(
    user: User, bare: Path
) -> None:
    ledger = ("--ledger", "git+file:lab.git", "--cpu-slots", "1", "--only", "models=m1")
    user.write(MOCK)
    user.run("run", "study.yaml", *ledger)
    user.run("merge", "study.yaml", *ledger[:2])
    user.write(MOCK.replace("[mock_benchmark]", "[{mock_benchmark: {rows: 2}}]"))
    user.run("run", "study.yaml", *ledger)
    user.write(MOCK.replace("campaign: study", "campaign: other"), "other.yaml")
    user.run("run", "other.yaml", *ledger)
    for name in ("study", "other"):
        user.run("merge", f"{name}.yaml", *ledger[:2])
    summaries = [
        json.loads(git(bare, "show", f"main:{file}"))
        for file in git(bare, "ls-tree", "-r", "--name-only", "main", "runs").splitlines()
    ]
    assert sorted(one["campaign"] for one in summaries) == ["other", "study", "study"]
    assert len({one["digest"] for one in summaries}) == 3
