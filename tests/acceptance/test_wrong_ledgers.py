"""A ledger that is damaged, missing, newer, or no ledger at all is named, and nothing is lost."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from .conftest import MOCK, User


def test_a_damaged_ledger_is_reported_and_rebuilt_from_the_results(finished: User) -> None:
    before = finished.published()
    ledger = finished.results / "ledger.db"
    for companion in finished.results.glob("ledger.db-*"):
        companion.unlink()
    ledger.write_bytes(b"this is no database at all" * 100)
    for verb in ("run", "status", "report", "plan"):
        done = finished.run(verb, "study.yaml", code=3)
        assert "ledger.db" in done.stderr
        assert "benchfleet ledger rebuild" in done.stderr
    rebuilt = finished.run("ledger", "rebuild", "study.yaml")
    assert "2 results taken in" in rebuilt.stdout
    assert (finished.results / "ledger.db.damaged-1").exists()
    assert "nothing was run" in finished.run("run", "study.yaml").stdout
    assert finished.published() == before


def spoil_the_end(ledger: Path, *, expires: float) -> bytes:
    """The first cell is held until then, and a page that tells what the last ones are is lost."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as opened:
        opened.execute(
            "update cell set state = 'running', expires = ? where ordinal = 1", (expires,)
        )
        opened.execute("pragma wal_checkpoint(truncate)")
        size = opened.execute("pragma page_size").fetchone()[0]
    content = bytearray(ledger.read_bytes())
    start = content.index(b'"repeat": 29,') // size * size
    content[start : start + size] = b"\x5a" * size
    ledger.write_bytes(content)
    return bytes(content)


def test_a_damaged_ledger_stays_while_a_runner_holds_a_cell_of_it(user: User) -> None:
    user.write(MOCK + "defaults: {repeats: 30}\n")
    user.run("run", "study.yaml")
    ledger = user.results / "ledger.db"
    whole = ledger.read_bytes()
    before = spoil_the_end(ledger, expires=time.time() + 3600)
    output = user.run("ledger", "rebuild", "study.yaml", code=3).stderr
    assert "malformed" in output
    assert "A runner may still hold m1/dense/mock_benchmark/r0" in output
    assert ledger.read_bytes() == before
    ledger.write_bytes(whole)
    spoil_the_end(ledger, expires=0.0)
    assert "60 results taken in" in user.run("ledger", "rebuild", "study.yaml").stdout
    assert (user.results / "ledger.db.damaged-1").exists()


@pytest.mark.parametrize(
    ("place", "printed"),
    [
        ("folder", "folder is not a file; name a file by --ledger, or"),
        ("bare.git", "(a repository is named git+file://"),
        ("study.yaml", "file is not a database; name a ledger's file by --ledger, or, was it one"),
        ("study.yaml/x.db", "study.yaml cannot be written (File exists), so no ledger can be made"),
        ("/proc/x.db", "/proc cannot be written (No such file or directory), so no ledger"),
    ],
)
def test_a_ledger_is_not_copied_to_what_is_none_and_no_message_says_to_move_it(
    finished: User, place: str, printed: str
) -> None:
    (finished.folder / "folder").mkdir()
    (finished.folder / "bare.git").mkdir()
    (finished.folder / "bare.git" / "HEAD").touch()
    output = finished.run("ledger", "copy", "study.yaml", "--to", place, code=3).stderr
    assert printed in output
    assert "results folder" not in output
    assert "; move " not in output


def test_somebody_s_database_is_not_set_aside(user: User) -> None:
    user.write(MOCK)
    other = sqlite3.connect(user.folder / "other.db")
    other.execute("create table precious (x)")
    other.commit()
    other.close()
    where = ("--ledger", "sqlite:other.db")
    output = user.run("ledger", "rebuild", "study.yaml", *where, code=3).stderr
    assert "is a database but no ledger" in output
    assert [file.name for file in user.folder.glob("other.db*")] == ["other.db"]


def test_a_ledger_that_cannot_be_reached_is_not_set_aside(finished: User) -> None:
    ledger = finished.results / "ledger.db"
    kept = ledger.rename(finished.folder / "kept.db")
    ledger.mkdir()
    assert (
        "ledger.db is not a file" in finished.run("ledger", "rebuild", "study.yaml", code=3).stderr
    )
    assert ledger.is_dir()
    ledger.rmdir()
    kept.rename(ledger)
    assert "2 were known" in finished.run("ledger", "rebuild", "study.yaml").stdout


def test_a_ledger_that_is_gone_does_not_run_everything_again(finished: User) -> None:
    before = finished.published()
    for file in finished.results.glob("ledger.db*"):
        file.unlink()
    for verb in ("run", "status", "plan", "report", "retry"):
        refused = finished.run(verb, "study.yaml", code=3).stderr
        assert "ledger rebuild" in refused
        assert "used another" not in refused  # the results were copied here with their ledger
    finished.run("ledger", "rebuild", "study.yaml")
    assert "nothing was run" in finished.run("run", "study.yaml").stdout
    assert finished.published() == before


def test_a_ledger_of_a_newer_schema_is_left_alone(finished: User) -> None:
    ledger = sqlite3.connect(finished.results / "ledger.db")
    ledger.execute("update meta set value = '99' where key = 'schema'")
    ledger.commit()
    ledger.close()
    before = (finished.results / "ledger.db").read_bytes()
    done = finished.run("run", "study.yaml", code=3)
    assert "99" in done.stderr
    assert "newer" in done.stderr
    finished.run("ledger", "rebuild", "study.yaml", code=3)
    assert (finished.results / "ledger.db").read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [b"notes on what was run\n" * 9, b"\x89PNG\0\1", b"SQLite format 3\0".ljust(8192, b"?")],
)
def test_a_file_that_is_no_ledger_is_not_set_aside(user: User, content: bytes) -> None:
    user.write(MOCK)
    (user.folder / "mine").write_bytes(content)
    output = user.run("ledger", "rebuild", "study.yaml", "--ledger", "mine", code=3).stderr
    assert f"the ledger {user.folder}/mine cannot be used" in output
    assert [file.name for file in user.folder.glob("mine*")] == ["mine"]
    assert (user.folder / "mine").read_bytes() == content


@pytest.mark.parametrize("harm", ["head", "tail"])
def test_a_damaged_ledger_that_is_named_is_set_aside_like_any_other(user: User, harm: str) -> None:
    user.write(MOCK)
    where = ("study.yaml", "--ledger", "sqlite:own.db")
    user.run("run", *where)
    file = user.folder / "own.db"
    content = bytearray(file.read_bytes())
    lost = slice(0, 4096) if harm == "head" else slice(4096, len(content))
    content[lost] = b"\x5a" * len(content[lost])
    file.write_bytes(content)
    assert "2 results taken in" in user.run("ledger", "rebuild", *where).stdout
    assert (user.folder / "own.db.damaged-1").read_bytes() == content
