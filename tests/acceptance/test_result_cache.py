"""A result cache that campaigns with ledgers of their own share."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.study import open_study
from repositories import git, make_bare

from .cached_campaigns import CAMPAIGN, cell_json, results, write
from .conftest import User


@pytest.fixture
def cache(user: User) -> Path:
    folder = user.folder / "cache"
    folder.mkdir()
    return folder


def test_another_campaign_takes_what_was_run_under_its_own_names(user: User, cache: Path) -> None:
    user.run("run", write(user, "first", cache))
    assert len([*cache.rglob("cell.json")]) == 2
    second = write(user, "second", cache, config="narrow")
    plan = user.run("plan", second).stdout
    assert "2 cells · 0 to run · 0 reused · 2 in the result cache" in plan
    assert {one["state"] for one in user.json("plan", second)["cells"]} == {"cached"}
    explained = user.json("plan", second, "--explain", "m/narrow/mock_benchmark")
    assert explained["state"] == "cached"
    output = user.run("run", second).stdout
    assert f"took 2 results from {cache.as_uri()}, which saves" in output
    assert "2 cells · 2 done (2 reused)" in output
    user.run("verify", second)
    assert user.json("ledger", "check", second)["faults"] == []
    first = cell_json(user, "first", "m/window/mock_benchmark")
    taken = cell_json(user, "second", "m/narrow/mock_benchmark")
    assert taken["metrics"] == first["metrics"]
    assert taken["fingerprint"] == first["fingerprint"]
    assert taken["provenance"].pop("taken_from")["cache"] == cache.as_uri()
    assert taken["provenance"] == first["provenance"]
    scores = {one["config"]: one["mean"] for one in user.json("report", second)["entries"]}
    assert scores["narrow"] == first["metrics"]["overall_score"]
    assert user.json("status", second)["used"]["attempts"] == 0
    note = f"2 results come from the result cache {cache.as_uri()}; other runs computed them."
    assert note in user.run("report", second).stdout
    assert user.json("report", second)["time"] == []
    assert user.run("manifest", second).stdout.count(f"taken from {cache.as_uri()}") == 2
    assert "nothing was run" in user.run("run", second).stdout
    user.run("dashboard", second, "--export", "site")
    pages = [file.read_text() for file in (user.folder / "site" / "cell").glob("*.html")]
    assert sum("· taken from the result cache" in page for page in pages) == 2
    index = (user.folder / "site" / "index.html").read_text()
    assert index.count("taken from the result cache, score") == 2


def test_a_lost_ledger_is_rebuilt_from_taken_results(user: User, cache: Path) -> None:
    user.run("run", write(user, "first", cache))
    user.run("run", second := write(user, "second", cache))
    (results(user, "second") / "ledger.db").unlink()
    assert user.json("ledger", "rebuild", second)["taken"] == 2
    user.run("verify", second)


def test_it_works_with_a_ledger_in_git(user: User, cache: Path) -> None:
    user.run("run", write(user, "first", cache))
    make_bare(user.folder / "lab.git")
    at = (write(user, "second", cache), "--ledger", "git+file:lab.git")
    assert "took 2 results from" in user.run("run", *at).stdout
    assert user.json("status", *at)["success"] == 2
    merged = user.json("merge", *at, "--results", "elsewhere")
    assert len(merged["came"]) == 2


def test_large_files_of_taken_results_stay_on_the_host_that_took_them(
    user: User, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_HOST", "lab1")
    user.run("run", write(user, "first", cache))
    bare = make_bare(user.folder / "lab.git")
    monkeypatch.setenv("BENCHFLEET_HOST", "lab2")
    at = (write(user, "second", cache), "--ledger", "git+file:lab.git?large=300B")
    done = user.run_here("run", *at)  # where pytest reports a folder that is left open
    assert done.returncode == 0, done.stderr
    path = "results/second/m/dense/mock_benchmark/left_out.json"
    branch = git(bare, "for-each-ref", "--format=%(refname)", "refs/heads/machine").strip()
    left_out = json.loads(git(bare, "show", f"{branch}:{path}"))
    assert {one["host"] for one in left_out.values()} == {"lab2"}


def test_a_worker_without_the_file_takes_results_too(user: User, cache: Path) -> None:
    user.run("run", write(user, "first", cache))
    second, url = user.folder / write(user, "second", cache), f"sqlite:{user.folder}/shared.db"
    study = open_study(load_campaign(second), ledger=url)
    with closing(study.open_ledger()) as ledger:
        study.record_campaign(ledger)
        ledger.enroll(study.cells())
    second.unlink()
    assert "took 2 results from" in user.run("work", "--ledger", url).stdout


def test_the_environment_names_a_cache_and_none_turns_it_off(
    user: User, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CAMPAIGN.format(name="first", cache="none", config="window")
    monkeypatch.setenv("BENCHFLEET_RESULT_CACHE", cache.as_uri())
    user.run("run", user.write(text, "first.yaml").name)
    assert not [*cache.rglob("cell.json")]
    named = user.write(
        text.replace("result_cache: none\n", "").replace("first", "second"), "s.yaml"
    )
    user.run("run", named.name)
    assert len([*cache.rglob("cell.json")]) == 2
    monkeypatch.setenv("BENCHFLEET_RESULT_CACHE", "/mnt/cache")
    error = user.run("plan", named.name, code=2).stderr
    assert "invalid BENCHFLEET_RESULT_CACHE '/mnt/cache': use a URL such as file:///" in error
    for verb in ("plan", "run"):
        monkeypatch.setenv("BENCHFLEET_RESULT_CACHE", "flie:///mnt/cache")
        error = user.run(verb, named.name, code=2).stderr
        assert "BENCHFLEET_RESULT_CACHE flie:///mnt/cache: no results store 'flie'" in error
        monkeypatch.setenv("BENCHFLEET_RESULT_CACHE", "rsync://me:secret@host/dir")
        error = user.run(verb, named.name, code=2).stderr
        assert "BENCHFLEET_RESULT_CACHE holds a password" in error
        assert "secret" not in error


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("/mnt/cache", "is not a URL such as file:///mnt/team/cache"),
        ("s4://bucket", "no results store 's4'; there are"),
        ("rsync://me:secret@host/dir", "holds a password"),
        ("s3://", "names no bucket; write s3://bucket/prefix"),
    ],
)
def test_a_wrong_address_is_refused_before_anything_runs(
    user: User, url: str, message: str
) -> None:
    error = user.run("run", write(user, "first", url), code=2).stderr
    assert "result_cache" in error
    assert message in error
    assert "secret" not in error


def test_a_machine_without_gpus_takes_what_it_cannot_run(user: User, cache: Path) -> None:
    user.run("run", write(user, "first", cache))
    text = CAMPAIGN.format(name="second", cache=cache.as_uri(), config="window")
    text = text.replace("adapter: mock,", "adapter: mock, needs: {gpus: 1},")
    text = text.replace("[mock_benchmark]", "[mock_benchmark, recall: {subsets: [128]}]")
    output = user.run("run", user.write(text, "second.yaml").name, code=1).stdout
    assert "took 2 results from" in output
    assert "cannot run here: m/dense/recall_128 and 1 more: " in output


def test_taken_results_are_uploaded_to_the_campaigns_store(user: User, cache: Path) -> None:
    user.run("run", write(user, "first", cache))
    nas = user.folder / "nas"
    nas.mkdir()
    text = (user.folder / write(user, "second", cache)).read_text()
    second = user.write(f"results: {nas.as_uri()}\n{text}", "second.yaml").name
    user.run("run", second, "--only", "configs=dense")
    user.run("run", second)
    assert len([*(nas / "second").glob("m/*/*/cell.json")]) == 2


def test_failed_cells_are_not_shared(user: User, cache: Path) -> None:
    text = CAMPAIGN.format(name="first", cache=cache.as_uri(), config="window")
    broken = text.replace("[mock_benchmark]", "[{_hostile: {act: raise, samples: 2}}]")
    user.run("run", user.write(broken, "first.yaml").name, code=1)
    assert not [*cache.rglob("cell.json")]
