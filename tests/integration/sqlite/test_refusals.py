"""Ledgers that are damaged, of another, or where none can be: each is named with what to do."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.errors import LedgerDamaged, LedgerError, LedgerTooNew, LedgerUnreachable
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing.claims import claim_any

from .conftest import CELLS, ME, filled, open_ledger

OrdinaryUser = Callable[[Callable[[], object]], str]


def use(path: Path) -> None:
    with closing(open_ledger(path)) as ledger:
        assert len(list(ledger.cells(with_cell=True))) == len(CELLS)
        claim_any(ledger, ME)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_to_a_few_bytes(path: Path) -> None:
    os.truncate(path, 50)


def cut_to_nothing(path: Path) -> None:
    os.truncate(path, 0)


def overwrite_the_head(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\x5a" * 4096)


def overwrite_all_but_the_head(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x5a" * (size - 4096))


def replace_by_text(path: Path) -> None:
    path.write_text("no ledger at all\n" * 1000)


def replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_another_database(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table meta (key text, value text)")
        connection.commit()


@pytest.mark.parametrize(
    ("harm", "damaged"),
    [
        (cut_in_half, True),
        (cut_to_a_few_bytes, True),
        (cut_to_nothing, True),
        (overwrite_the_head, True),
        (overwrite_all_but_the_head, True),
        (replace_by_text, True),
        (replace_by_a_folder, False),
        (replace_by_another_database, False),  # somebody's, and perhaps a whole one
    ],
)
def test_a_damaged_ledger_is_named_with_what_to_do(
    tmp_path: Path, harm: Callable[[Path], None], damaged: bool
) -> None:
    """Only what cannot be read any more is called damaged."""
    path = filled(tmp_path / "ledger.db")
    use(path)
    harm(path)
    with pytest.raises(LedgerUnreachable) as caught:
        use(path)
    assert isinstance(caught.value, LedgerDamaged) == damaged
    message = str(caught.value)
    assert str(path) in message
    assert "aside" in message
    assert "`benchfleet ledger rebuild CAMPAIGN`" in message


def test_a_ledger_that_is_damaged_while_it_is_open_says_so(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with closing(open_ledger(path)) as ledger:
        overwrite_all_but_the_head(path)
        with pytest.raises(LedgerUnreachable, match=re.escape(str(path))):
            list(ledger.cells(with_cell=True))


def test_one_that_is_damaged_after_another_changed_its_schema_says_so_too(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with closing(open_ledger(path)) as ledger:
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("create table of_a_newer_one (number integer)")
            other.execute("pragma wal_checkpoint (truncate)")
        overwrite_all_but_the_head(path)
        with open(path, "r+b") as file:  # nor can its schema be read
            file.seek(100)
            file.write(b"x" * 3000)
        with pytest.raises(LedgerDamaged, match=re.escape(str(path))):
            ledger.enroll(CELLS)


def test_a_ledger_of_a_newer_schema_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update meta set value = '99' where key = 'schema'")
        connection.execute("drop table event")  # what a newer schema may well have done
        connection.commit()
        connection.execute("pragma journal_mode = delete")
    before = path.read_bytes()
    with pytest.raises(LedgerTooNew, match=r"its schema is 99, this one knows \d+; upgrade"):
        open_ledger(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]


def test_the_ledger_of_another_campaign_is_refused_by_name(tmp_path: Path) -> None:
    path = filled(tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match="of campaign 'study', not of 'other'"):
        SqliteLedger(path, campaign="other")


@pytest.mark.parametrize("leftover", ["ledger.db-wal", "ledger.db-shm"])
def test_what_a_moved_ledger_left_behind_is_not_mixed_into_a_new_one(
    tmp_path: Path, leftover: str
) -> None:
    path = tmp_path / "ledger.db"
    (tmp_path / leftover).write_bytes(b"old")
    with pytest.raises(LedgerUnreachable, match=f"{leftover} was left by a ledger that is gone"):
        open_ledger(path)
    assert not path.exists()


def test_a_network_file_system_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    mounts = f"server:/x {tmp_path} nfs4 rw 0 0\n"
    with pytest.raises(LedgerUnreachable, match=r"\(nfs4\).*--ledger sqlite:///local/path"):
        SqliteLedger(folder / "ledger.db", campaign="study", mounts=lambda: mounts)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"), [(0o444, 0o777), (0o000, 0o777), (0o666, 0o555), (0o666, 0o000)]
)
def test_a_ledger_without_permissions_is_named(
    ordinary_user: OrdinaryUser, file_mode: int, folder_mode: int
) -> None:
    outer = Path(tempfile.mkdtemp())
    try:
        outer.chmod(0o755)
        folder = outer / "results"
        folder.mkdir()
        path = filled(folder / "ledger.db")
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        message = ordinary_user(lambda: use(path))
        assert message.startswith("LedgerUnreachable")
        assert str(folder) in message
        assert "ermission" in message
    finally:
        folder.chmod(0o755)
        shutil.rmtree(outer)


@pytest.mark.parametrize("inside", ["ledger.db", "results/ledger.db"])
def test_a_folder_where_no_ledger_can_be_made_is_named(
    ordinary_user: OrdinaryUser, inside: str
) -> None:
    outer = Path(tempfile.mkdtemp())
    try:
        outer.chmod(0o555)
        message = ordinary_user(lambda: use(outer / inside))
        assert message.startswith("LedgerUnreachable")
        assert str(outer) in message
        assert "ermission" in message
        assert list(outer.iterdir()) == []
    finally:
        outer.chmod(0o755)
        shutil.rmtree(outer)
