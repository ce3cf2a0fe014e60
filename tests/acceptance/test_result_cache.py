"""A result cache that campaigns with ledgers of their own share."""

from __future__ import annotations

import json
import shutil
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.study import open_study
from repositories import git, make_bare

from .conftest import User

CAMPAIGN = """\
campaign: {name}
result_cache: {cache}
matrix:
  models: [{{name: m, adapter: mock, model_kwargs: {{answer: Ada Brandt}}}}]
  configs: {{dense: null, {config}: {{settings: {{size: 8}}}}}}
  benchmarks: [mock_benchmark]
"""


@pytest.fixture
def cache(user: User) -> Path:
    folder = user.folder / "cache"
    folder.mkdir()
    return folder


def write(user: User, name: str, cache: Path | str, *, config: str = "window") -> str:
    """Write a campaign and return its file's name."""
    url = cache.as_uri() if isinstance(cache, Path) else cache
    user.write(CAMPAIGN.format(name=name, cache=url, config=config), f"{name}.yaml")
    return f"{name}.yaml"


def results(user: User, name: str) -> Path:
    return user.folder / "benchmark_results" / name


def cell_json(user: User, name: str, path: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((results(user, name) / path / "cell.json").read_bytes())
    return content


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
    user.run("run", *at)
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


def test_a_cache_that_is_away_changes_nothing_and_gets_the_results_later(
    user: User, cache: Path
) -> None:
    first = write(user, "first", cache)
    cache.rename(user.folder / "unmounted")
    output = user.run("run", first).stdout
    assert f"the result cache was not used: the folder {cache} does not exist" in output
    assert "2 success" in output
    assert user.json("status", first)["unsent_to_cache"] == 2
    assert f"2 results wait for upload to {cache.as_uri()}" in user.run("status", first).stdout
    (user.folder / "unmounted").rename(cache)
    user.run("run", first)
    assert len([*cache.rglob("cell.json")]) == 2
    assert "nothing was run" in user.run("run", first).stdout


def test_a_damaged_result_is_named_and_its_cell_runs(user: User, cache: Path) -> None:
    user.run("run", write(user, "first", cache))
    for file in sorted(cache.rglob("samples.jsonl"))[:1]:
        file.write_text("{}")
    output = user.run("run", second := write(user, "second", cache)).stdout
    assert "took 1 result from" in output
    assert "was not taken from" in output
    assert "samples.jsonl is not as it was sealed" in output
    assert user.json("status", second)["success"] == 2
    user.run("verify", second)


def test_numbers_that_samples_do_not_make_are_refused_and_replaced(user: User, cache: Path) -> None:
    """What `verify` would refuse is not taken, and the cell's own result takes its place."""
    user.run("run", write(user, "first", cache))
    for file in cache.rglob("cell.json"):
        content = json.loads(file.read_bytes())
        content["metrics"]["overall_score"] = 0.99
        file.write_text(json.dumps(content))
    second = write(user, "second", cache)
    output = user.run("run", second).stdout
    assert output.count("was not taken from") == 2
    assert output.count("metrics.json has the score") == 2
    user.run("verify", second)
    assert "took 2 results" in user.run("run", write(user, "third", cache)).stdout


def test_what_cannot_be_read_is_a_warning(user: User, cache: Path) -> None:
    """As a person without rights; root reads everything."""
    user.run("run", write(user, "first", cache))
    (cache / "fingerprints").rename(user.folder / "kept")
    (cache / "fingerprints").write_text("a file")
    output = user.run("run", write(user, "second", cache)).stdout
    assert "2 success" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_while_it_takes_results_releases_its_cells(
    user: User, cache: Path, number: signal.Signals
) -> None:
    many = ", ".join(str(128 + 16 * n) for n in range(100))
    text = CAMPAIGN.replace("[mock_benchmark]", f"[recall: {{{{samples: 2, subsets: [{many}]}}}}]")
    values = {"cache": cache.as_uri(), "config": "window"}
    user.run("run", user.write(text.format(name="first", **values), "first.yaml").name)
    second = user.write(text.format(name="second", **values), "second.yaml").name
    folder = results(user, "second")
    run = user.start("run", second)
    while run.poll() is None and not [*folder.glob("m/*/*/cell.json")]:
        time.sleep(0.001)
    run.send_signal(number)
    run.communicate(timeout=60)
    status = user.json("status", second)
    assert status["running"] == 0
    assert status["success"] + status["pending"] == 200
    user.run("run", second)
    user.run("verify", second)
    taken = [
        cell
        for cell in map(str, folder.glob("m/*/*/cell.json"))
        if "taken_from" in Path(cell).read_text()
    ]
    assert len(taken) == 200


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


def test_failed_cells_are_not_shared(user: User, cache: Path) -> None:
    text = CAMPAIGN.format(name="first", cache=cache.as_uri(), config="window")
    broken = text.replace("[mock_benchmark]", "[{_hostile: {act: raise, samples: 2}}]")
    user.run("run", user.write(broken, "first.yaml").name, code=1)
    assert not [*cache.rglob("cell.json")]


def test_a_run_that_is_killed_while_it_takes_results_loses_nothing(user: User, cache: Path) -> None:
    """Killed at ten moments, each time run again: every result is there once, whole, and taken."""
    text = CAMPAIGN.replace(
        "benchmarks: [", "benchmarks: [recall: {{samples: 2, subsets: [{many}]}}, "
    )
    many = ", ".join(str(128 + 16 * n) for n in range(30))
    values = {"cache": cache.as_uri(), "config": "window", "many": many}
    user.run("run", user.write(text.format(name="first", **values), "first.yaml").name)
    second = user.write(text.format(name="second", **values), "second.yaml").name
    folder = results(user, "second")
    for least in range(1, 60, 6):
        run = user.start("run", second, "--cpu-slots", "1")
        while run.poll() is None and len([*folder.glob("m/*/*/cell.json")]) < least:
            time.sleep(0.001)
        run.send_signal(signal.SIGKILL)
        run.wait()
    user.run("run", second)
    assert user.json("status", second)["success"] == 62
    assert not [
        one for one in folder.glob("m/*/*/cell.json") if "taken_from" not in one.read_text()
    ]
    assert user.json("ledger", "check", second)["faults"] == []
    user.run("verify", second)


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


def test_answers_of_a_take_that_was_killed_are_not_called_ones_own(user: User, cache: Path) -> None:
    """What such a run leaves: a result sealed again, in the folder of its attempt."""
    user.run("run", write(user, "first", cache))
    user.run("run", write(user, "second", cache))
    taken = results(user, "second") / "m" / "dense" / "mock_benchmark"
    fingerprint = cell_json(user, "second", "m/dense/mock_benchmark")["fingerprint"]
    third = write(user, "third", "none")
    left = results(user, "third") / ".attempts" / fingerprint / "1-1"
    shutil.copytree(taken, left)
    assert "resumes" not in user.run("run", third).stdout
    own = cell_json(user, "third", "m/dense/mock_benchmark")
    assert own["provenance"]["resumed_samples"] == 0
    assert "taken_from" not in own["provenance"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("telemetry", {"ram": float("nan")}),
        ("seconds", {"load": 10**400}),
        ("seconds", {"load": 1e308, "benchmark": 1e308}),
        ("metrics", None),
        ("provenance", []),
        ("cell", {}),
    ],
    ids=str,
)
def test_an_odd_entry_harms_only_itself(user: User, cache: Path, key: str, value: object) -> None:
    user.run("run", write(user, "first", cache))
    file = sorted(cache.rglob("cell.json"))[0]
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps({**content, key: value}))
    second = write(user, "second", cache)
    output = user.run("run", second).stdout
    assert "took 1 result from" in output
    assert output.count("was not taken from") == 1
    assert user.json("status", second)["success"] == 2
    user.run("verify", second)
    assert "took 2 results from" in user.run("run", write(user, "third", cache)).stdout
