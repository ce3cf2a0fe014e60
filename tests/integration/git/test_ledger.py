"""A ledger in git with a real remote: outboxes, enrolling, claiming and compacting."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.event import Event
from benchfleet.errors import GitAway, LedgerUnreachable
from benchfleet.ledger.git.batched import BatchedLedger
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.testing import FakeClock, sample_cell
from benchfleet.testing.claims import claim_any
from git_workers import published
from repositories import git

from .conftest import CELLS, ME, SUCCESS, opened, result_of


def test_an_outcome_that_could_not_be_pushed_waits_in_the_outbox_for_the_next_opening(
    bare: Path, tmp_path: Path
) -> None:
    away = tmp_path / "away.git"
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS[:2])
        first, second = claim_any(ledger, ME, 2)
        bare.rename(away)
        for claim in (first, second):
            with pytest.raises(LedgerUnreachable, match="does not appear to be a git repository"):
                ledger.finish(claim.lease, SUCCESS)
    away.rename(bare)
    with closing(opened(bare, "another")) as other:
        other.release([second.lease], "taken away")  # as a person may
        assert [record.state for record in other.cells()] == ["running", "pending"]
    with closing(opened(bare)) as ledger:
        assert claim_any(ledger, ME) == []  # the outcome of the second is not sent yet
        ledger.resend()
        assert [record.state for record in ledger.cells()] == ["success", "pending"]
        assert not list(ledger.store.folder.glob("outbox/*"))


def test_while_the_remote_is_away_readers_see_what_was_seen_and_nothing_is_claimed(
    bare: Path, tmp_path: Path
) -> None:
    with closing(opened(bare, timeout=60.0)) as ledger:
        ledger.enroll(CELLS[:2])
        bare.rename(tmp_path / "away.git")
        assert [record.state for record in ledger.cells()] == ["pending", "pending"]
        assert list(claim_any(ledger, ME)) == []
        assert list(ledger.reap()) == []
        (tmp_path / "away.git").rename(bare)
        assert len(claim_any(ledger, ME, 2)) == 2


def test_the_last_event_of_another_installation_is_known_to_who_reads_nothing_else(
    bare: Path,
) -> None:
    with closing(opened(bare)) as mine, closing(opened(bare, "another")) as other:
        mine.enroll(CELLS[:2])
        for ledger in (other, BatchedLedger(other, threads=False)):
            mine.record(Event(kind="retry_asked", fingerprint=CELLS[0].fingerprint))
            assert ledger.last_event() == mine.events()[-1].seq


def test_a_push_without_an_answer_is_not_done_twice(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(bare, timeout=60.0)) as ledger:
        ledger.enroll(CELLS[:2])
        remote, calls = ledger.store.remote, []
        push = remote.push

        def breaks(swaps: Any, **more: Any) -> bool:
            calls.append(push(swaps, **more))
            if len(calls) % 2:
                raise GitAway("the line broke")
            return True

        monkeypatch.setattr(remote, "push", breaks)
        assert claim_any(ledger, ME) == []
        (claim,) = claim_any(ledger, ME)  # and the first claim is given back
        calls.clear()
        ledger.finish(claim.lease, SUCCESS)
        kinds = [event.kind for event in ledger.events()]
        assert kinds == ["enrolled", "claimed", "released", "claimed", "finished"]


def test_enrolments_of_many_at_once_make_one_order(bare: Path) -> None:
    with closing(opened(bare, "one")) as one, closing(opened(bare, "two")) as two:
        assert one.enroll(CELLS[:20]) == 20
        assert two.enroll(CELLS[10:30]) == 10
        assert one.enroll([sample_cell(0, model="model-0", priority=9)]) == 0
        assert [r.fingerprint for r in two.cells()] == [c.fingerprint for c in CELLS[:30]]
        assert claim_any(two, ME)[0].cell.priority == 9
        assert [e.data for e in two.events(kinds=["enrolled"])] == [
            {"new": 20, "changed": 0},
            {"new": 10, "changed": 0},
            {"new": 0, "changed": 1},
        ]


def test_installations_that_claim_different_cells_are_never_refused(bare: Path) -> None:
    names = ("one", "two", "three")
    ledgers = [opened(bare, name, max_age=60.0) for name in names]
    ledgers[0].enroll(CELLS[:99])
    for ledger in ledgers:
        ledger.pull()
    pushes = [counted(ledger) for ledger in ledgers]
    cells = [cell.fingerprint for cell in CELLS[:99]]
    for turn in range(4):
        for number, ledger in enumerate(ledgers):  # each begins at cells of its own, as runners do
            first = 33 * number + 5 * turn
            assert len(ledger.claim(ME, cells[first : first + 20], 5)) == 5
    assert sum(output.count(False) for output in pushes) == 0
    for ledger in ledgers:
        ledger.close()


def counted(ledger: GitLedger) -> list[bool]:
    """What became of its pushes from now on."""
    push, output = ledger.store.remote.push, list[bool]()

    def count(*given: Any, **more: Any) -> bool:
        output.append(push(*given, **more))
        return output[-1]

    ledger.store.remote.push = count  # type: ignore[method-assign]
    return output


def test_refs_of_cells_that_ended_long_ago_are_compacted_and_no_cell_is_claimed_again(
    bare: Path,
) -> None:
    wall = FakeClock()
    with (
        closing(opened(bare, "one", wall=wall)) as one,
        closing(opened(bare, "stale", wall=wall, max_age=60.0)) as stale,
    ):
        one.enroll(CELLS[:3])
        stale.pull()  # nothing ended, as far as it knows from here on
        for claim in claim_any(one, ME, 2):
            one.finish(claim.lease, SUCCESS)
        assert one.compact() == 0
        wall.advance(2 * 86400.0)
        assert one.compact() == 2
        assert git(bare, "for-each-ref", "refs/benchfleet/study/claims") == ""
        output = counted(stale)
        claims = claim_any(stale, ME, 3)
        assert [claim.lease.fingerprint for claim in claims] == [CELLS[2].fingerprint]
        assert output[0] is False
        one.record(Event(kind="retry_asked", fingerprint=CELLS[0].fingerprint))
        (again,) = claim_any(stale, ME, 3) or claim_any(one, ME, 3)
        assert (again.lease.attempt, again.lease.token) == (2, 2)
    with closing(opened(bare, "newcomer")) as newcomer:
        assert [r.state for r in newcomer.cells()] == ["running", "success", "running"]


def test_what_was_seen_can_be_lost_and_is_read_again(bare: Path) -> None:
    with closing(opened(bare)) as ledger:
        ledger.enroll(CELLS[:5])
        (claim,) = claim_any(ledger, ME)
        ledger.finish(claim.lease, SUCCESS)
        before = [(r.path, r.state, r.token) for r in ledger.cells()]
        kinds = [event.kind for event in ledger.events()]
        folder = ledger.store.folder
    (folder / "mirror.db").write_bytes(os.urandom(8192))
    with closing(opened(bare)) as ledger:
        assert [(r.path, r.state, r.token) for r in ledger.cells()] == before
        assert [event.kind for event in ledger.events()] == kinds
        assert len(claim_any(ledger, ME, 9)) == 4


def test_results_that_a_remote_forgot_as_it_went_away_come_with_the_next_ones(bare: Path) -> None:
    """Refs of a repository in files change one after the other, whatever a push was promised."""

    with closing(opened(bare, files=result_of)) as ledger:
        ledger.enroll(CELLS[:3])
        claims = claim_any(ledger, ME, 3)
        ledger.finish(claims[0].lease, SUCCESS)
        (branch,) = git(bare, "for-each-ref", "--format=%(refname)", "refs/heads").split()
        before = git(bare, "rev-parse", branch).strip()
        ledger.finish(claims[1].lease, SUCCESS)
        git(bare, "update-ref", branch, before)
        ledger.pull()
        ledger.finish(claims[2].lease, SUCCESS)
    assert set(published(bare)) == {str(claim.lease.fingerprint) for claim in claims}


def test_results_that_end_together_are_one_commit(bare: Path) -> None:
    """An import of thousands of results takes seconds, not minutes."""
    with closing(opened(bare, "one", files=result_of)) as ledger:
        ledger.enroll(CELLS)
        claims = ledger.claim(ME, [cell.fingerprint for cell in CELLS], len(CELLS))
        assert len(claims) == len(CELLS) > 1
        refused = ledger.finish_all([(claim.lease, SUCCESS) for claim in claims])
    assert not any(refused)
    (branch,) = git(bare, "for-each-ref", "--format=%(refname)", "refs/heads/machine").split()
    assert git(bare, "rev-list", "--count", branch).strip() == "1"
    names = git(bare, "ls-tree", "-r", "--name-only", branch).split()
    assert names == sorted(f"results/{cell.fingerprint}" for cell in CELLS)
