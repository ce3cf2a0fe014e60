"""A result cache that is away or damaged, and runs that end while they take results from it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cached_campaigns import CAMPAIGN, cell_json, results, write
from .conftest import User


@pytest.fixture
def cache(user: User) -> Path:
    folder = user.folder / "cache"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def first_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that has the results of a campaign, to be copied."""
    user = User(tmp_path_factory.mktemp("first"))
    cache = user.folder / "cache"
    cache.mkdir()
    user.run("run", write(user, "first", cache))
    return cache


@pytest.fixture
def filled(first_cache: Path, cache: Path) -> Path:
    """The cache of a user, with results of a campaign that ran elsewhere."""
    shutil.copytree(first_cache, cache, dirs_exist_ok=True)
    return cache


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


@pytest.fixture
def read_only_cache(user: User, cache: Path) -> Iterator[Path]:
    """The cache as a share that can only be read."""
    share = user.folder / "share"
    share.mkdir()
    command = ["mount", "--bind", str(cache), str(share)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        reason = "needs root and the right to mount, for a disk that can only be read"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    subprocess.run(["mount", "-o", "remount,ro,bind", str(share)], check=True)
    yield share
    subprocess.run(["umount", "--lazy", str(share)], check=True)


def test_every_run_says_that_a_read_only_cache_lacks_results(
    user: User, read_only_cache: Path
) -> None:
    first, url = write(user, "first", read_only_cache), read_only_cache.as_uri()
    for _ in range(2):
        output = " ".join(user.run("run", first).stdout.split())
        assert f"2 results are not uploaded to {url} yet; the next run uploads them" in output
        assert "Read-only file system" in output
    output = " ".join(user.run("doctor", first).stdout.split())
    assert f"result cache: {url} answers, but is read-only" in output


def test_a_cache_that_can_be_written_is_tested_without_a_trace(user: User, cache: Path) -> None:
    output = user.run("doctor", write(user, "first", cache)).stdout
    assert f"result cache: {cache.as_uri()} answers\n" in output
    assert not [*cache.iterdir()]


def test_a_damaged_result_is_named_and_its_cell_runs(user: User, filled: Path) -> None:
    for file in sorted(filled.rglob("samples.jsonl"))[:1]:
        file.write_text("{}")
    output = user.run("run", second := write(user, "second", filled)).stdout
    assert "took 1 result from" in output
    assert "was not taken from" in output
    assert "samples.jsonl is not as it was sealed" in output
    assert user.json("status", second)["success"] == 2
    user.run("verify", second)


def test_a_truncated_entry_is_named_as_the_cache_has_it(user: User, filled: Path) -> None:
    entry = sorted(filled.rglob("cell.json"))[0]
    entry.write_bytes(entry.read_bytes()[:100])
    output = "".join(user.run("run", write(user, "second", filled)).stdout.split())
    assert f"wasnottakenfrom{entry.parent.as_uri()}:itscell.jsoncannotberead" in output
    assert ".arrivals" not in output


def test_numbers_that_samples_do_not_make_are_refused_and_replaced(
    user: User, filled: Path
) -> None:
    """What `verify` would refuse is not taken, and the cell's own result takes its place."""
    for file in filled.rglob("cell.json"):
        content = json.loads(file.read_bytes())
        content["metrics"]["overall_score"] = 0.99
        file.write_text(json.dumps(content))
    second = write(user, "second", filled)
    output = user.run("run", second).stdout
    assert output.count("was not taken from") == 2
    assert output.count("metrics.json has the score") == 2
    user.run("verify", second)
    assert "took 2 results" in user.run("run", write(user, "third", filled)).stdout


def test_what_cannot_be_read_is_a_warning(user: User, filled: Path) -> None:
    """As a person without rights; root reads everything."""
    (filled / "fingerprints").rename(user.folder / "kept")
    (filled / "fingerprints").write_text("a file")
    output = user.run("run", write(user, "second", filled)).stdout
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


def test_a_run_that_is_killed_while_it_takes_results_loses_nothing(user: User, cache: Path) -> None:
    """Killed at six moments, each time run again: every result is there once, whole, and taken."""
    text = CAMPAIGN.replace(
        "benchmarks: [", "benchmarks: [recall: {{samples: 2, subsets: [{many}]}}, "
    )
    many = ", ".join(str(128 + 16 * n) for n in range(30))
    values = {"cache": cache.as_uri(), "config": "window", "many": many}
    user.run("run", user.write(text.format(name="first", **values), "first.yaml").name)
    second = user.write(text.format(name="second", **values), "second.yaml").name
    folder = results(user, "second")
    for least in range(1, 60, 10):
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


def test_answers_of_a_take_that_was_killed_are_not_called_ones_own(
    user: User, filled: Path
) -> None:
    """What such a run leaves: a result sealed again, in the folder of its attempt."""
    user.run("run", write(user, "second", filled))
    taken = results(user, "second") / "m" / "dense" / "mock_benchmark"
    fingerprint = cell_json(user, "second", "m/dense/mock_benchmark")["fingerprint"]
    third = write(user, "third", "none")
    left = results(user, "third") / ".attempts" / fingerprint / "1-1"
    shutil.copytree(taken, left)
    assert "resumes" not in user.run("run", third).stdout
    own = cell_json(user, "third", "m/dense/mock_benchmark")
    assert own["provenance"]["resumed_samples"] == 0
    assert "taken_from" not in own["provenance"]


ODD = [
    ("telemetry", {"ram": float("nan")}),
    ("seconds", {"load": 10**400}),
    ("seconds", {"load": 1e308, "benchmark": 1e308}),
    ("metrics", None),
    ("provenance", []),
    ("cell", {}),
]


def test_odd_entries_harm_only_themselves(user: User, cache: Path) -> None:
    text = CAMPAIGN.replace("[mock_benchmark]", "[recall: {{samples: 2, subsets: [{subsets}]}}]")
    subsets = ", ".join(str(128 + 16 * n) for n in range(4))
    values = {"cache": cache.as_uri(), "config": "window", "subsets": subsets}
    files = [
        user.write(text.format(name=name, **values), f"{name}.yaml").name
        for name in ("first", "second", "third")
    ]
    user.run("run", files[0])
    entries = sorted(cache.rglob("cell.json"))
    for file, (key, value) in zip(entries, ODD, strict=False):
        file.write_text(json.dumps({**json.loads(file.read_bytes()), key: value}))
    output = user.run("run", files[1]).stdout
    assert "took 2 results from" in output
    assert output.count("was not taken from") == len(ODD)
    assert user.json("status", files[1])["success"] == len(entries) == len(ODD) + 2
    user.run("verify", files[1])
    assert "took 8 results from" in user.run("run", files[2]).stdout
