"""A remote that has lost refs of a ledger in git, or on which somebody removed some."""

from __future__ import annotations

import shutil
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from benchfleet.errors import LedgerUnreachable
from benchfleet.ledger.git import compaction, transactions
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from repositories import git

from . import conftest
from .conftest import ME, SUCCESS, result_of

CELLS = [sample_cell(number) for number in range(3)]


opened = partial(conftest.opened, files=result_of)


def remove(bare: Path, pattern: str) -> list[str]:
    refs = git(bare, "for-each-ref", "--format=%(refname)", pattern).split()
    for ref in refs:
        git(bare, "update-ref", "-d", ref)
    return refs


@pytest.mark.parametrize("create", [True, False])
def test_a_ledger_that_was_lost_is_not_begun_again(bare: Path, create: bool) -> None:
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS)
        remove(bare, "refs/")
        with pytest.raises(LedgerUnreachable, match="has lost the ledger"):
            ledger.pull()
        folder = ledger.store.folder
    with pytest.raises(LedgerUnreachable, match=rf"is lost, remove {folder}"):
        opened(bare, create=create)
    assert git(bare, "for-each-ref") == ""
    shutil.rmtree(folder)
    with closing(opened(bare)) as ledger:
        assert ledger.enroll(CELLS) == 3


def test_a_part_of_a_ledger_that_was_lost_is_named(bare: Path) -> None:
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS)
        claim_any(ledger, ME)
        (log,) = remove(bare, "refs/benchfleet/study/log/")
        with pytest.raises(LedgerUnreachable, match=f"has lost {log} of the ledger"):
            claim_any(ledger, ME)


def test_a_branch_of_results_that_somebody_removed_comes_back_with_the_next_ones(
    bare: Path,
) -> None:
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS)
        first, second, third = (claim.lease for claim in claim_any(ledger, ME, 3))
        ledger.finish(first, SUCCESS)
        ledger.finish(second, SUCCESS)
        (branch,) = remove(bare, "refs/heads/machine/")
        ledger.finish(third, SUCCESS)
    assert len(git(bare, "ls-tree", "-r", "--name-only", branch).split()) == 3


def test_a_remote_that_refuses_for_ever_what_was_just_seen_is_given_up(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS)
        (claim,) = claim_any(ledger, ME)
        lock = bare / f"{ledger.store.log}.lock"  # as a machine leaves it that dies in a push
        lock.touch()
        monkeypatch.setattr(transactions, "MAX_REFUSALS", 3)
        assert claim_any(ledger, ME) == []
        with pytest.raises(LedgerUnreachable, match=r"again and again: .*lock.*File exists"):
            ledger.finish(claim.lease, SUCCESS)
        lock.unlink()
    with closing(opened(bare)) as ledger:
        ledger.resend()
        assert [r.state for r in ledger.cells()].count("success") == 1


def test_a_merge_leaves_refs_that_cannot_be_removed_to_the_next_one(bare: Path) -> None:
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS)
        (claim,) = claim_any(ledger, ME)
        ledger.finish(claim.lease, SUCCESS)
        lock = bare / "refs/benchfleet/study/ledger.lock"
        lock.touch()
        care = compaction.Compaction(ledger.store, ledger.sync)
        assert care.run(older=-60.0) == 0
        lock.unlink()
        assert care.run(older=-60.0) == 1
