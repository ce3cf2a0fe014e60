"""Ledgers that earlier development versions made: opened, or refused in one sentence.

`tests/data/sqlite_schema_1.sql` and `git_format_1.bundle` hold a finished campaign of three cells.
What a results folder of that time becomes is in `tests/integration/rebuild`; PostgreSQL's is in
`tests/integration/postgres`.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.errors import LedgerError
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import sample_cell
from repositories import git, make_bare

DATA = Path(__file__).parents[1] / "data"


def test_an_sqlite_ledger_of_schema_1_is_refused_with_the_way_to_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((DATA / "sqlite_schema_1.sql").read_text())
    before = file.read_bytes()
    with pytest.raises(LedgerError) as refused:
        SqliteLedger(file, campaign="earlier")
    assert "was made by an earlier benchfleet (schema 1, this one needs 2)" in str(refused.value)
    assert "its results are kept: move" in str(refused.value)
    assert "benchfleet ledger rebuild" in str(refused.value)
    assert file.read_bytes() == before


def test_a_ledger_in_git_of_format_1_is_read_and_goes_on(tmp_path: Path) -> None:
    bare = make_bare(tmp_path / "lab.git")
    git(bare, "fetch", "--quiet", str(DATA / "git_format_1.bundle"), "refs/*:refs/*")

    def opened(name: str) -> GitLedger:
        return GitLedger(f"git+file://{bare}", campaign="earlier", folder=tmp_path / name)

    new = sample_cell()
    with closing(opened("one")) as ledger:
        records = list(ledger.cells(with_cell=True))
        assert [record.state for record in records] == ["success"] * 3
        assert all(record.outcome and record.outcome.digest and record.cell for record in records)
        assert ledger.enroll([new]) == 1
        (claim,) = ledger.claim(
            RunnerId("me"), [*(r.fingerprint for r in records), new.fingerprint]
        )
        assert claim.cell == new
        ledger.finish(claim.lease, Outcome(state="success", digest="new"))
    with closing(opened("two")) as other:
        assert [record.state for record in other.cells()] == ["success"] * 4
