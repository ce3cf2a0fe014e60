"""Results deleted, damaged or half written, and what a runner left that came too late."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from .conftest import MOCK, User, samples_kept, until
from .test_interruptions import (
    SLOW,
    finished_and_content,
)

PATH = "m1/dense/mock_benchmark"


@pytest.mark.parametrize("how", ["all of it", "cell.json"])
def test_a_result_deleted_by_hand_is_named_and_run_again(finished: User, how: str) -> None:
    before = finished_and_content(finished)
    folder = finished.results / PATH
    if how == "all of it":
        shutil.rmtree(folder)
    else:
        (folder / how).unlink()
    assert finished.json("status", "study.yaml")["gone"] == [PATH]
    if how == "all of it":
        output = finished.run("run", "study.yaml").stdout
        assert f"1 result was deleted here; its cell is pending again: {PATH}" in output
        assert finished_and_content(finished) == before
        return
    output = finished.run("run", "study.yaml", code=1).stdout
    assert f"its result is missing: {PATH}" in output
    assert "retry study.yaml --gone" in output
    refused = finished.run("retry", "study.yaml", "--gone", code=2).stderr
    assert "this would run 1 finished cell again" in refused
    finished.run("retry", "study.yaml", "--gone", "--yes")
    # what is left there is never overwritten
    ended = finished.run("run", "study.yaml", code=1).stdout.replace("\n", "")
    assert "cannot be published" in ended
    shutil.rmtree(folder)
    finished.run("run", "study.yaml")
    assert finished_and_content(finished) == before


FILES = ["cell.json", "samples.jsonl", "metrics.json", "raw_results.csv", "config.json"]
WAYS = ["cut off", "emptied", "changed"]


def test_a_damaged_result_is_named_when_results_are_looked_through(user: User) -> None:
    user.write(MOCK + f"defaults: {{repeats: {len(FILES) * len(WAYS)}}}\n")
    user.run("run", "study.yaml", "--only", "models=m1")
    before = finished_and_content(user)
    damaged = {
        f"{PATH}/r{number}": (file, way)
        for number, (file, way) in enumerate((file, way) for file in FILES for way in WAYS)
    }
    for path, (file, way) in damaged.items():
        damage(user.results / path / file, way)
    for verb in ("status", "plan"):
        user.run(verb, "study.yaml")  # none of them breaks on it
    assert "were changed" in user.run("report", "study.yaml").stdout
    output = user.json("ledger", "rebuild", "study.yaml", code=1)
    assert {path for path, _ in output["refused"]} == set(damaged)
    for path in damaged:
        shutil.rmtree(user.results / path)
    user.run("retry", "study.yaml", "--gone", "--yes")
    user.run("run", "study.yaml", "--only", "models=m1")
    assert finished_and_content(user) == before


def damage(file: Path, way: str) -> None:
    content = file.read_bytes()
    middle = len(content) // 2
    if way == "cut off":
        file.write_bytes(content[:middle])
    elif way == "emptied":
        file.write_bytes(b"")
    else:
        file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])


def test_half_a_result_left_by_a_crash_is_never_taken_for_one(user: User) -> None:
    """Killed while it writes, before the ledger knew: the cell runs again, from its samples."""
    user.write(SLOW.replace("repeats: 6", "repeats: 1"))
    process = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) > 10)
    process.kill()
    process.communicate()
    (attempt,) = (user.results / ".attempts").glob("*/*")
    (attempt / "cell.json").write_text('{"format": 1, "finger')
    (attempt / "metrics.json").write_text("{}")
    with open(attempt / "samples.jsonl", "ab") as file:
        file.write(b'{"index": 11, "id": "sam')
    assert user.json("status", "study.yaml")["success"] == 0
    user.run("run", "study.yaml")
    (samples,) = finished_and_content(user).values()
    assert [sample["index"] for sample in samples] == list(range(60))
    (content,) = user.published().values()
    assert json.loads(content)["provenance"]["resumed_samples"] > 10


def test_a_kill_after_the_last_cell_leaves_no_report_that_is_out_of_date(user: User) -> None:
    """The report of an earlier run is there, and the runner dies before it writes the new one."""
    user.write(MOCK)
    user.run("run", "study.yaml", "--only", "models=m1")
    kept = {
        name: (user.results / name).read_bytes() for name in ("report.md", "execution_summary.json")
    }
    user.run("run", "study.yaml")
    for name, content in kept.items():
        (user.results / name).write_bytes(content)
    user.run("run", "study.yaml")
    assert "2 cells: 2 success" in (user.results / "report.md").read_text()
    summary = json.loads((user.results / "execution_summary.json").read_text())
    assert summary["counts"]["success"] == 2


def test_what_a_runner_left_that_came_too_late_is_removed_where_all_is_done(
    finished: User,
) -> None:
    fingerprint = json.loads(next(iter(finished.published().values())))["fingerprint"]
    too_late = finished.results / ".attempts" / fingerprint / "1-99"
    too_late.mkdir(parents=True)
    (too_late / "log.txt").touch()
    assert "(2 reused)" in finished.run("run", "study.yaml").stdout
    assert not too_late.parent.exists()
    assert "all cells are done" in finished.run("run", "study.yaml").stdout


def test_drafts_of_a_ledger_whose_maker_was_killed_are_removed(user: User) -> None:
    user.write(MOCK)
    user.results.mkdir(parents=True)
    drafts = [user.results / f".ledger.db.{'1f' * 16}{end}" for end in ("", "-wal", "-shm")]
    for draft in drafts:
        draft.touch()
        os.utime(draft, (0, 0))
    user.run("run", "study.yaml")
    assert not [draft for draft in drafts if draft.exists()]
