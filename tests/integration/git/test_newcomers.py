"""What a machine reads that comes late to a ledger in git, or comes back to it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.ledger.git import compaction, snapshot
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.testing import FakeClock, sample_cell
from benchfleet.testing.claims import claim_any
from repositories import git

from .conftest import ME, opened, result_of

SUCCESS = Outcome(state="success", digest="abc", metrics={"overall": 0.5})
RETRIED = Outcome(state="failed", retry_in=100.0)
CELLS = [sample_cell(number) for number in range(8)]


def seen(ledger: GitLedger) -> list[Any]:
    return [(r.path, r.state, r.attempt, r.tries, r.token, r.outcome) for r in ledger.cells()]


def states(bare: Path) -> list[str]:
    return git(bare, "for-each-ref", "--format=%(refname)", "refs/benchfleet/study/state").split()


def test_a_newcomer_reads_one_state_instead_of_the_whole_history(bare: Path) -> None:
    clock = FakeClock()
    with closing(opened(bare, "one", clock=clock, files=result_of)) as one:
        one.enroll(CELLS[:6])
        done, again, held, beaten = (claim.lease for claim in claim_any(one, ME, 4))
        one.finish(done, SUCCESS)
        one.finish(again, RETRIED)
        assert one.renew([beaten]) == [beaten]
        assert one.compact() == 0
        assert states(bare) == []  # so little is read as quickly
        note = Event(kind="noted", fingerprint=held.fingerprint)
        one.run([lambda do: do.record(note)] * snapshot.MIN_EVENTS)
        clock.advance(40.0)
        one.compact()
        assert len(states(bare)) == 1
        one.enroll(CELLS)
        one.record(Event(kind="noted"))
        commits = int(git(bare, "rev-list", "--count", "--all"))
        with closing(opened(bare, "two", clock=clock)) as two:
            assert seen(two) == seen(one)
            assert [e.data for e in two.events()] == [e.data for e in one.events()]
            assert int(git(two.store.git.folder, "rev-list", "--count", "--all")) < commits
            clock.advance(59.0)
            assert len(claim_any(two, RunnerId("two"), 9)) == 4
            clock.advance(2.0)
            (late,) = claim_any(two, RunnerId("two"), 9)  # of which 60 s of back-off were left
            assert late.lease.fingerprint == again.fingerprint
            one.finish(held, SUCCESS)
            one.finish(beaten, SUCCESS)
            assert seen(two) == seen(one)
        one.compact()
        assert len(states(bare)) == 1  # it has hardly grown


def test_a_state_that_cannot_be_had_is_no_loss(bare: Path) -> None:
    with closing(opened(bare, "one")) as one:
        one.enroll(CELLS)
        one.finish(claim_any(one, ME)[0].lease, SUCCESS)
        one.run([lambda do: do.record(Event(kind="noted"))] * snapshot.MIN_EVENTS)
        one.compact()
        (ref,) = states(bare)
        wrong = one.store.commit(one.store.objects.tree({}), (), "nothing")
        git(one.store.git.folder, "push", "-q", "--force", str(bare), f"{wrong}:{ref}")
        with closing(opened(bare, "two")) as two:
            assert seen(two) == seen(one)


def test_after_a_reboot_the_mirror_serves_and_times_count_again(bare: Path) -> None:
    clock, later = FakeClock(5000.0), FakeClock(10.0)
    with closing(opened(bare, "one", clock=clock, lease=60.0, files=result_of)) as one:
        one.enroll(CELLS[:3])
        first, second, third = (claim.lease for claim in claim_any(one, ME, 3))
        one.finish(first, RETRIED)
        one.finish(second, SUCCESS)
        before, folder = seen(one), one.store.folder
    for way in ("whole", "torn"):
        (folder / "boot").write_text("another start of the machine")
        if way == "torn":
            for file in (folder / "objects.git" / "objects").glob("??/*"):
                file.write_bytes(b"")
        with closing(opened(bare, "one", clock=later, lease=60.0, files=result_of)) as one:
            assert seen(one) == before
            assert list(one.reap()) == []
    with closing(opened(bare, "one", clock=later, lease=60.0, files=result_of)) as one:
        one.finish(third, SUCCESS)
        assert claim_any(one, ME) == []
        later.advance(101.0)
        (again,) = claim_any(one, ME)
        one.finish(again.lease, SUCCESS)
    (branch,) = git(bare, "for-each-ref", "--format=%(refname)", "refs/heads/machine").split()
    assert len(git(bare, "ls-tree", "-r", "--name-only", branch).split()) == 3


def test_refs_of_what_ended_are_removed_by_those_who_work_an_hour_after_they_saw_it(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "REFS_PER_PUSH", 2)
    clock = FakeClock()
    claims = "refs/benchfleet/study/claims"
    with closing(opened(bare, "one", clock=clock)) as one:
        one.enroll(CELLS[:3])
        for claim in claim_any(one, ME, 2):
            one.finish(claim.lease, SUCCESS)
        one.reap()
        clock.advance(1800.0)
        one.reap()
        assert git(bare, "for-each-ref", claims).count("\n") == 2
        clock.advance(1801.0)
        one.reap()
        assert git(bare, "for-each-ref", claims) == ""
        assert len(claim_any(one, ME, 9)) == 1
