"""What a hosted repository is spared, in virtual time."""

from __future__ import annotations

import random
import time
from collections import deque
from typing import cast

import pytest

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import ClaimLost
from benchfleet.ledger.git.batched import BatchedLedger
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.testing import FakeClock, sample_cell
from benchfleet.testing.claims import claim_any
from hosted_ledgers import LEASE, SUCCESS, Shared, alone, handle, push


@pytest.mark.slow
def test_twenty_workers_push_six_times_a_minute_together_and_hardly_ever_wait() -> None:
    clock, chance = FakeClock(0.0), random.Random(1)
    first = Shared(clock, {}, -1)
    cells = [sample_cell(number) for number in range(2000)]
    first.enroll(cells)
    waiting = [cell.fingerprint for cell in cells]
    ledgers = [handle(first, number, chance) for number in range(20)]
    ends: dict[int, tuple[float, Claim]] = {}
    idle, renewed, hours = 0.0, [0.0] * 20, 8
    while clock.now < hours * 3600:
        for number, ledger in enumerate(ledgers):
            ledger.step()
            if number in ends and clock.now >= ends[number][0]:
                ledger.finish_later(ends.pop(number)[1].lease, SUCCESS)
            if number not in ends:
                claims = ledger.claim(RunnerId(str(number)), waiting[:100])
                if claims:
                    waiting.remove(claims[0].lease.fingerprint)
                    ends[number] = clock.now + chance.uniform(300, 900), claims[0]
                else:
                    idle += 1.0
            if number in ends and clock.now - renewed[number] >= LEASE / 5:
                renewed[number] = clock.now
                assert ledger.renew([ends[number][1].lease])
        clock.advance(1.0)
    pushes = sorted(when for times in first.pushes.values() for when in times)
    window: deque[float] = deque()
    most = 0
    for when in pushes:
        window.append(when)
        while when - window[0] >= 60.0:
            window.popleft()
        most = max(most, len(window))
    assert most <= 6
    assert idle / (20 * hours * 3600) < 0.05
    done = sum(1 for _ in first.cells(states=["success"]))
    assert done > 0.9 * 20 * hours * 6 * 0.95
    assert not first.reap()


def test_what_comes_together_goes_together_with_cells_claimed_ahead() -> None:
    clock, first, ledger = alone()
    first.enroll([sample_cell(number) for number in range(9)])
    assert claim_any(ledger, RunnerId("me"), 2) == []
    push(clock, ledger)
    held = claim_any(ledger, RunnerId("me"), 2)
    assert len(held) == 2
    push(clock, ledger)  # one ahead for each that runs
    ahead = list(first.cells(states=["running"]))[2:]
    assert len(ahead) == 2
    assert len(list(ledger.cells(states=["running"]))) == 2  # the others are to be asked for
    before = len(first.pushes[0])
    calls = [ledger.finish_later(claim.lease, SUCCESS) for claim in held]
    ledger.record(Event(kind="used", fingerprint=held[0].lease.fingerprint))
    again = claim_any(ledger, RunnerId("me"), 2)
    assert len(again) == 2
    push(clock, ledger)
    assert all(call.done.is_set() and call.answer is None for call in calls)
    assert len(first.pushes[0]) == before + 1
    ledger.close()
    states = [record.state for record in first.cells()]
    assert (states.count("success"), states.count("running")) == (2, 2)  # none is held ahead


def test_a_cell_that_was_cancelled_after_it_was_claimed_ahead_does_not_begin() -> None:
    clock, first, ledger = alone()
    first.enroll([sample_cell(number) for number in range(2)])
    claim_any(ledger, RunnerId("me"))
    push(clock, ledger)
    (claim,) = claim_any(ledger, RunnerId("me"))
    push(clock, ledger)  # the other one is claimed ahead
    (ahead,) = (
        one.fingerprint for one in first.cells() if one.fingerprint != claim.cell.fingerprint
    )
    ledger.record(Event(kind="cancel_asked", fingerprint=ahead))
    assert [record.state for record in ledger.cells(fingerprints=[ahead])] == ["cancelled"]
    assert ledger.claim(RunnerId("me"), [ahead]) == []
    push(clock, ledger)
    assert ledger.claim(RunnerId("me"), [ahead]) == []


def test_a_cell_that_was_released_after_it_was_claimed_ahead_does_not_begin() -> None:
    clock, first, ledger = alone()
    first.enroll([sample_cell(number) for number in range(2)])
    claim_any(ledger, RunnerId("me"))
    push(clock, ledger)
    (claim,) = claim_any(ledger, RunnerId("me"))
    push(clock, ledger)
    (ahead,) = (one for one in first.cells() if one.fingerprint != claim.cell.fingerprint)
    first.release([ahead.lease], "by a person")
    (theirs,) = first.claim(RunnerId("them"), [ahead.fingerprint])
    assert ledger.claim(RunnerId("me"), [ahead.fingerprint]) == []
    first.release([theirs.lease], "by a person")
    push(clock, ledger)
    (again,) = ledger.claim(RunnerId("me"), [ahead.fingerprint])
    assert again.lease.token > theirs.lease.token


def test_who_lost_a_lease_hears_of_it_after_the_push() -> None:
    clock, first, ledger = alone()
    first.enroll([sample_cell(0)])
    claim_any(ledger, RunnerId("me"))
    push(clock, ledger)
    (claim,) = claim_any(ledger, RunnerId("me"))
    first.release([claim.lease], "by a person")
    assert ledger.renew([claim.lease]) == [claim.lease]
    push(clock, ledger)
    assert ledger.renew([claim.lease]) == []
    call = ledger.finish_later(claim.lease, SUCCESS)
    push(clock, ledger)
    assert isinstance(call.answer, ClaimLost)


def test_a_finish_returns_when_the_remote_has_it() -> None:
    first = Shared(FakeClock(0.0), {}, 0)
    first.enroll([sample_cell(0)])
    (claim,) = claim_any(first, RunnerId("me"))
    # time flies
    ledger = BatchedLedger(cast(GitLedger, first), clock=lambda: 100.0 * time.monotonic())
    ledger.finish(claim.lease, SUCCESS)
    assert [record.state for record in first.cells()] == ["success"]
    with pytest.raises(ClaimLost):
        ledger.finish(claim.lease, Outcome(state="failed"))
    ledger.close()


def test_slots_of_two_kinds_are_both_served_by_the_next_push() -> None:
    clock, first, ledger = alone()
    cells = [sample_cell(number) for number in range(4)]
    first.enroll(cells)
    names = [cell.fingerprint for cell in cells]
    small, large = names[:2], names[2:]  # a slot that may take the ones, and one the others
    me = RunnerId("me")
    assert [*ledger.claim(me, small), *ledger.claim(me, large)] == []
    push(clock, ledger)
    assert len(ledger.claim(me, small)) == 1
    assert len(ledger.claim(me, large)) == 1


def test_progress_goes_with_the_next_push_of_a_renewal() -> None:
    clock, first, ledger = alone()
    first.enroll([sample_cell(0)])
    claim_any(ledger, RunnerId("me"))
    push(clock, ledger)
    (claim,) = claim_any(ledger, RunnerId("me"))
    ledger.report_progress(WorkerProgress(runner="me", eta=5.0))
    assert ledger.progress() == []
    ledger.renew([claim.lease])
    push(clock, ledger)
    assert [report.eta for report in ledger.progress()] == [5.0]


def test_short_cells_are_claimed_ahead_for_as_many_as_began_and_one_more() -> None:
    """Two slots whose cells take a second, which ask one after the other."""
    clock, first, ledger = alone()
    first.enroll([sample_cell(number) for number in range(40)])
    ends: list[Claim] = []
    done = 0
    for _ in range(90):
        for claim in ends:
            ledger.finish_later(claim.lease, SUCCESS)
        done += len(ends)
        ends = [claim for _ in range(2) for claim in claim_any(ledger, RunnerId("me"), 1)]
        ledger.step()
        clock.advance(1.0)
    assert len(first.pushes[0]) <= 9
    assert done >= 25  # with one ahead for each that runs, about one for each push


def test_a_cell_whose_lease_ran_out_while_it_was_held_is_claimed_again() -> None:
    clock, first, ledger = alone()
    first.enroll([sample_cell(0)])
    assert claim_any(ledger, RunnerId("me"), 1) == []
    push(clock, ledger)
    (held,) = claim_any(ledger, RunnerId("me"), 1)
    clock.advance(LEASE + 1)
    assert first.reap()
    assert ledger.renew([held.lease]) == [held.lease]  # the next push tells
    push(clock, ledger)
    assert ledger.renew([held.lease]) == []
    assert claim_any(ledger, RunnerId("me"), 1) == []
    push(clock, ledger)
    assert claim_any(ledger, RunnerId("me"), 1)


def test_a_cell_is_pending_between_the_push_that_claims_it_ahead_and_its_answers() -> None:
    clock, first, ledger = alone()
    first.enroll([sample_cell(number) for number in range(2)])
    own, other = (cell.fingerprint for cell in (sample_cell(0), sample_cell(1)))
    assert ledger.claim(RunnerId("me"), [own, other]) == []
    first.claim(RunnerId("other"), [other])
    states: dict[str, str] = {}

    def look() -> None:
        states.update((record.fingerprint, record.state) for record in ledger.cells())

    first.pushed = look
    push(clock, ledger)
    assert states == {own: "pending", other: "running"}
    assert claim_any(ledger, RunnerId("me"), 1)


def test_a_cell_that_was_cancelled_while_it_was_held_is_claimed_again_once_it_is_retried() -> None:
    clock, first, ledger = alone()
    cell = sample_cell(0)
    first.enroll([cell])
    assert ledger.claim(RunnerId("me"), [cell.fingerprint]) == []
    push(clock, ledger)
    (held,) = ledger.claim(RunnerId("me"), [cell.fingerprint])
    first.record(Event(kind="cancel_asked", fingerprint=cell.fingerprint))  # the runner reads this
    first.record(Event(kind="retry_asked", fingerprint=cell.fingerprint))
    assert ledger.claim(RunnerId("me"), [cell.fingerprint]) == []
    push(clock, ledger)
    (again,) = ledger.claim(RunnerId("me"), [cell.fingerprint])
    assert again.lease.token > held.lease.token
