"""A split cell that was interrupted while some of its parts have their results."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from contextlib import closing

import pytest

from .conftest import User, end_of, until
from .splits import RESULT, ROWS, declare, samples

PARTS = [f"{RESULT}+part{number}of4" for number in (1, 2, 3, 4)]


@pytest.fixture
def interrupted(user: User) -> User:
    """A campaign whose run was interrupted after two of four parts."""
    declare(user, 4, seconds=0.1)
    user.run("ledger", "init", "study.yaml")
    shutil.copy(user.results / "ledger.db", user.folder / "backup.db")
    run = user.start("run", "study.yaml", "--cpu-slots", "1")
    until(lambda: {*PARTS[:2]} <= {*user.published()})
    run.send_signal(signal.SIGINT)
    end_of(run, code=130)
    assert {*user.published()} == {*PARTS[:2]}
    return user


def lose_ledger(user: User) -> None:
    for file in user.results.glob("ledger.db*"):
        file.unlink()


def parts_of_result(user: User) -> int:
    seal = json.loads((user.results / RESULT / "cell.json").read_text())
    return len(seal["provenance"]["parts"])


def test_a_rebuilt_ledger_knows_the_parts_and_the_split(interrupted: User) -> None:
    lose_ledger(interrupted)
    said = interrupted.run("ledger", "rebuild", "study.yaml").stdout
    assert "2 results taken in, 0 were known" in said
    (split,) = interrupted.json("status", "study.yaml", code=None)["split"]
    assert (split["cell"], split["parts_ended"], split["parts"]) == (RESULT, 2, 4)
    done = interrupted.run("run", "study.yaml", "--cpu-slots", "2", "--split", "auto")
    assert "part1of4" not in done.stdout + done.stderr
    assert "cannot be published" not in done.stdout + done.stderr
    assert "part3of4" in done.stdout
    assert len(samples(interrupted.results / RESULT)) == ROWS
    assert parts_of_result(interrupted) == 4
    assert list(interrupted.published()) == [RESULT]


def test_a_run_with_an_older_ledger_takes_in_the_parts(interrupted: User) -> None:
    """A backup from before the run."""
    lose_ledger(interrupted)
    shutil.copy(interrupted.folder / "backup.db", interrupted.results / "ledger.db")
    done = interrupted.run("run", "study.yaml", "--cpu-slots", "1")
    assert "entered 2 results of this folder" in done.stdout + done.stderr
    assert "part1of4" not in done.stdout + done.stderr
    assert parts_of_result(interrupted) == 4
    assert list(interrupted.published()) == [RESULT]


def test_a_part_whose_place_is_taken_is_joined_from_where_it_waits(interrupted: User) -> None:
    """The result there was changed, so no new ledger takes it in: that part is asked again."""
    lose_ledger(interrupted)
    (interrupted.results / PARTS[0] / "log.txt").write_text("changed")
    interrupted.run("ledger", "rebuild", "study.yaml", code=1)
    done = interrupted.run("run", "study.yaml", "--cpu-slots", "1")
    assert f"{PARTS[0]} cannot be published" in done.stdout + done.stderr
    assert len(samples(interrupted.results / RESULT)) == ROWS
    assert parts_of_result(interrupted) == 4
    assert interrupted.json("status", "study.yaml")["used"]["attempts"] < 12  # no claim again
    interrupted.run("run", "study.yaml")
    assert list(interrupted.published()) == [RESULT]
    assert not [*(interrupted.results / ".attempts").iterdir()]


def test_verify_looks_at_the_results_of_parts(interrupted: User) -> None:
    done = interrupted.run("verify", "study.yaml", code=1)
    assert "2 results verified, nothing wrong" in done.stdout
    assert "1 cell without a good result: 1 pending" in done.stdout
    samples = interrupted.results / PARTS[1] / "samples.jsonl"
    samples.write_bytes(samples.read_bytes()[1:])
    assert f"damaged  {PARTS[1]}" in interrupted.run("verify", "study.yaml", code=1).stdout
    output = interrupted.run("verify", "study.yaml", "--repair", "--yes", code=1).stdout
    assert f"pending again  {PARTS[1]}" in output
    assert "not in the campaign" not in output
    done = interrupted.run("run", "study.yaml", "--cpu-slots", "1")
    assert "part1of4" not in done.stdout
    assert "part2of4" in done.stdout
    assert parts_of_result(interrupted) == 4
    interrupted.run("verify", "study.yaml")


def test_archive_and_gc_know_the_attempts_of_parts(interrupted: User) -> None:
    """Those of a cell whose result is there go; before that, all that a run may need stays."""
    failed = interrupted.results / ".attempts" / fingerprint_of(interrupted, PARTS[0]) / "0-0"
    failed.mkdir(parents=True)
    (failed / "failure.json").write_text("{}")
    words = ("gc", "study.yaml", "--older-than", "0")
    shown = interrupted.run(*words).stdout
    assert "does not know" not in shown
    interrupted.run("run", "study.yaml", "--cpu-slots", "1")
    assert failed.exists()
    assert f"{PARTS[0]} 0-0" in interrupted.run(*words).stdout
    interrupted.run(*words, "--yes")
    assert not failed.exists()


def test_the_manifest_has_the_attempts_of_parts(interrupted: User) -> None:
    """Its rows are those of the view."""
    interrupted.run("run", "study.yaml", "--cpu-slots", "1")
    rows = interrupted.json("manifest", "study.yaml")["manifest"]
    with closing(sqlite3.connect(interrupted.results / "ledger.db")) as connection:
        view = connection.execute("select id, output_file from benchmark_manifest").fetchall()
    assert [(row["id"], row["output_file"]) for row in rows] == view
    assert {*PARTS, RESULT} == {row["output_file"] for row in rows}


def test_logs_takes_the_name_of_a_part(interrupted: User) -> None:
    done = interrupted.run("logs", "study.yaml", PARTS[1])
    assert f"{PARTS[1]}  attempt 1 of 1, success" in done.stderr
    assert "no such cell" in interrupted.run("logs", "study.yaml", f"{PARTS[1]}0", code=2).stderr


def test_verbs_see_the_leases_of_parts(user: User) -> None:
    """A runner is gone, and the part that it ran is held until its lease ends."""
    declare(user, 4, seconds=60)
    run = user.start("run", "study.yaml", "--cpu-slots", "1")
    until(lambda: user.json("status", "study.yaml", code=None).get("running") == 1)
    run.kill()
    run.wait()
    refused = user.run("ledger", "copy", "study.yaml", "--to", "sqlite:copy.db", code=3).stderr
    assert f"runners hold 1 of its cells, such as {PARTS[0]}" in refused
    assert "1 cell is running" in user.run("doctor", "study.yaml", code=None).stdout
    (holder,) = user.json("status", "study.yaml", code=None)["holders"]
    reaped = user.json("reap", "study.yaml", "--now", "--host", holder["host"], "--yes")
    assert [one["cell"] for one in reaped["reaped"]] == [PARTS[0]]


def fingerprint_of(user: User, path: str) -> str:
    return str(json.loads(user.published()[path])["fingerprint"])
