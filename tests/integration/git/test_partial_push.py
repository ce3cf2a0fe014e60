"""A remote that died while it changed the refs of a push, one after the other: whatever was changed
by then, each cell goes on, and ends with exactly one result."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import Lease, Outcome, RunnerId
from benchfleet.errors import ClaimLost
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.testing import FakeClock, sample_cell
from benchfleet.testing.claims import claim_any
from repositories import git, make_bare

from .conftest import result_of

ME, OTHER = RunnerId("me"), RunnerId("other")
SUCCESS = Outcome(state="success", digest="abc", host="lab")
LEASE = 60.0
REFS = {
    "claim": ("claims", "log"),
    "claim again": ("claims", "log"),
    "finish": ("claims", "log", "heads"),
}


class Ticking(FakeClock):
    """A clock that goes on as it is looked at, as clocks do."""

    def __call__(self) -> float:
        self.advance(0.5)
        return super().__call__()


def opened(bare: Path, name: str, clock: FakeClock) -> GitLedger:
    return GitLedger(
        f"git+file://{bare}", campaign="study", folder=bare.parent / name, clock=clock,
        lease=LEASE, max_age=0.0, timeout=0.0, files=result_of, host="lab",
    )  # fmt: skip


def refs(bare: Path) -> dict[str, str]:
    output = git(bare, "for-each-ref", "--format=%(refname) %(objectname)").split("\n")
    return dict(line.split() for line in output if line)


def kind(ref: str) -> str:
    return next(one for one in ("claims", "log", "heads") if f"/{one}/" in ref)


def half(bare: Path, before: dict[str, str], changed: Sequence[str]) -> None:
    """Leave of the last push only the refs of these kinds."""
    for ref, oid in refs(bare).items():
        if before.get(ref) != oid and kind(ref) not in changed:
            old = [before[ref]] if ref in before else ["-d"]
            git(bare, "update-ref", *(["-d", ref] if old == ["-d"] else [ref, *old]))


def act(ledger: GitLedger, verb: str, lease: Lease | None) -> None:
    if verb.startswith("claim"):
        claim_any(ledger, ME)
    elif lease is not None:
        ledger.finish(lease, SUCCESS)


def prepared(ledger: GitLedger, verb: str) -> Lease | None:
    ledger.enroll([sample_cell()])
    if verb == "claim":
        return None
    (claim,) = claim_any(ledger, ME)
    if verb == "claim again":
        ledger.release([claim.lease], "another try")
        return None
    return claim.lease


def cases() -> Iterator[Any]:
    for verb, kinds in REFS.items():
        for size in range(1, len(kinds)):
            for changed in combinations(kinds, size):
                yield pytest.param(verb, changed, id=f"{verb}-{'+'.join(changed)}")


@pytest.mark.parametrize("owner", ["dies", "goes on"])
@pytest.mark.parametrize(("verb", "changed"), list(cases()))
def test_a_partial_push_leaves_no_cell_behind(
    tmp_path: Path, verb: str, changed: tuple[str, ...], owner: str
) -> None:
    bare, clock = make_bare(tmp_path / "lab.git"), Ticking()
    with closing(opened(bare, "mine", clock)) as mine:
        lease = prepared(mine, verb)
    before = refs(bare)
    shutil.copytree(tmp_path / "mine", tmp_path / "as it was")
    with closing(opened(bare, "mine", clock)) as mine:
        act(mine, verb, lease)
    half(bare, before, changed)
    folder = {"goes on": "as it was", "dies": "theirs"}[owner]
    with closing(opened(bare, folder, clock)) as ledger:
        if owner == "goes on":  # it has heard nothing, and tells it again
            with suppress(ClaimLost):
                act(ledger, verb, lease)
        for _ in range(4):
            clock.advance(LEASE / 2 + 1)
            ledger.pull()
            ledger.reap()
            for claim in claim_any(ledger, OTHER):
                ledger.finish(claim.lease, SUCCESS)
        (record,) = ledger.cells()
        assert record.state == "success"
    with closing(opened(bare, "newcomer", clock)) as newcomer:
        assert [one.state for one in newcomer.cells()] == ["success"]
        assert len(newcomer.events(kinds=["finished"])) == 1
        newcomer.sync.complete_results()  # as `benchfleet merge` does
    branches = git(bare, "for-each-ref", "--format=%(refname)", "refs/heads/machine").split()
    found = [git(bare, "ls-tree", "-r", "--name-only", name).split() for name in branches]
    orphans = changed == ("heads",) and owner == "dies"  # of which the ledger knows nothing
    assert sum(map(len, found)) == 1 + orphans
