"""What is not a ledger in git, or none any more: each is named."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.errors import (
    LedgerAbsent,
    LedgerDamaged,
    LedgerError,
    LedgerMisnamed,
    LedgerUnreachable,
)
from benchfleet.ledger.git.discovery import campaigns_at
from benchfleet.ledger.git.log import lines_of
from benchfleet.ledger_campaign import campaign_of
from benchfleet.testing.claims import claim_any
from repositories import git

from .conftest import CELLS, ME, opened


def commit(bare: Path, message: str) -> str:
    """A commit of nothing, in the repository itself."""
    tree = git(bare, "mktree", "--missing").strip()
    who = ("-c", "user.name=x", "-c", "user.email=x@x")
    return git(bare, *who, "commit-tree", "-m", message, tree).strip()


def test_a_repository_without_a_ledger_and_no_repository_at_all_are_distinguished(
    bare: Path,
) -> None:
    with pytest.raises(LedgerAbsent, match="no ledger of campaign 'study'"):
        opened(bare, create=False)
    with pytest.raises(LedgerUnreachable, match="git init --bare"):
        opened(bare.with_name("nothing.git"))
    assert not bare.with_name("nothing.git").exists()


def test_only_where_no_ledger_was_ever_seen_may_a_repository_be_made(bare: Path) -> None:
    opened(bare).close()
    bare.rename(bare.with_name("away.git"))
    with pytest.raises(LedgerUnreachable, match=r"there and can be reached$"):
        opened(bare)
    with pytest.raises(LedgerUnreachable, match=r"there and can be reached$"):
        campaigns_at(f"git+file://{bare}")


def test_one_of_several_campaigns_is_to_be_named(bare: Path) -> None:
    for campaign in ("study", "other"):
        opened(bare, campaign=campaign).close()
    several = r"several campaigns; add --campaign with one of other, study"
    with pytest.raises(LedgerMisnamed, match=several):
        campaign_of(f"git+file://{bare}")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("remote: fatal: write error: No space left on device", "free space on the disk"),
        ("remote: error: Read-only file system", "make it writable"),
        (
            "remote: fatal: unable to create temporary object directory",
            "its disk has space, and that this user may write",
        ),
        ("git@nas: Permission denied (publickey).", "may read and push there"),
    ],
)
def test_the_advice_fits_what_git_says_of_the_remote(words: str, advice: str, bare: Path) -> None:
    with closing(opened(bare)) as ledger:
        message = str(ledger.store.ledger_error(ledger.store.remote._failed(words)))
    assert advice in message
    assert "git init" not in message


def test_a_log_that_was_rewritten_is_named(bare: Path) -> None:
    with closing(opened(bare, "one")) as one, closing(opened(bare, "two")) as two:
        one.enroll(CELLS[:2])
        claim_any(one, ME)
        two.pull()
        git(bare, "update-ref", one.store.log, commit(bare, "x"))
        with pytest.raises(LedgerDamaged, match="never to be rewritten"):
            two.pull()


def test_a_path_that_leads_out_of_the_tree_is_refused(bare: Path) -> None:
    with closing(opened(bare, "one")) as one:
        one.enroll(CELLS[:1])
        objects = one.store.objects
        commit = objects.commit_of(git(bare, "rev-parse", one.store.refs.enrolled).strip())
        found = objects.lookup(commit.tree, "cells-00000.jsonl.gz")
        row = json.loads(lines_of(objects.read(found[0])[1])[0])  # type: ignore[index]
        row[2] = "../../outside"
        tree = objects.tree({"cells-00000.jsonl": (objects.blob(json.dumps(row).encode()), False)})
        evil = objects.commit(tree, (), commit.message, who="x <x>", at=0.0)
        swap = f"{evil}:{one.store.refs.enrolled}"
        git(one.store.git.folder, "push", "-q", "--force", str(bare), swap)
        with pytest.raises(LedgerDamaged, match=r"cannot be read|is not a path"):
            opened(bare, "two")


def test_another_format_is_refused_by_name(bare: Path) -> None:
    opened(bare, "one").close()
    newer = commit(bare, 'begin\n\n{"benchfleet": 99, "campaign": "study"}')
    git(bare, "update-ref", "refs/benchfleet/study/ledger", newer)
    with pytest.raises(LedgerError, match="newer benchfleet: its format is 99"):
        opened(bare, "two")
