"""What a hosted repository is spared, in virtual time: twenty workers on one ledger."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

import pytest

from benchfleet.domain.attempt import Claim, Lease, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.errors import BenchfleetError, ClaimLost
from benchfleet.ledger.git.hosted import HostedLedger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.testing import FakeClock, sample_cell

SUCCESS = Outcome(state="success", digest="abc")
LEASE = 1800.0


class Shared(MemoryLedger):
    """A ledger in memory that counts what a repository would have been asked."""

    def __init__(self, clock: FakeClock, pushes: dict[int, list[float]], number: int) -> None:
        super().__init__(clock=clock, lease=LEASE)
        self.pushes, self.number, self.now = pushes, number, clock

    def shared(self, verbs: Sequence[Callable[[], Any]]) -> list[Any]:
        self.pushes.setdefault(self.number, []).append(self.now())
        answers: list[Any] = []
        for verb in verbs:
            try:
                answers.append(verb())
            except BenchfleetError as error:
                answers.append(error)
        return answers

    def claimed(self, runner: RunnerId, candidates: Sequence[str], limit: int) -> Sequence[Claim]:
        return self.claim(runner, candidates, limit)

    def renewed(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        return self.renew(leases)

    def finished(self, lease: Lease, outcome: Outcome) -> None:
        self.finish(lease, outcome)

    def released(self, leases: Sequence[Lease], reason: str) -> None:
        self.release(leases, reason)

    def recorded(self, event: Event) -> int:
        return self.record(event)

    def kept(self, lease: Lease, outcome: Outcome) -> AbstractContextManager[None]:
        return nullcontext()

    def within(self, seconds: float) -> AbstractContextManager[None]:
        return nullcontext()

    def place(self) -> None:
        return None

    def compact(self) -> int:
        return 0

    def last(self) -> int:
        return 0

    def moved(self, seconds: float) -> tuple[int, int]:
        lately = [times for times in self.pushes.values() if self.now() - times[-1] <= seconds]
        return len({*self.pushes, self.number}), len(lately)


def claim_wanted(
    ledger: HostedLedger, first: Shared, runner: str, limit: int = 1
) -> Sequence[Claim]:
    """As a runner does, which knows what it follows: cells claimed ahead for it still wait."""
    taken = {event.fingerprint for event in ledger.events(kinds=["claimed"])}
    wanted = (r.fingerprint for r in first.cells() if r.fingerprint not in taken)
    return ledger.claim(RunnerId(runner), list(islice(wanted, 40)), limit)


def handle(first: Shared, number: int, chance: random.Random) -> HostedLedger:
    """Another installation on the same ledger."""
    other = Shared(first.now, first.pushes, number)
    vars(other).update({**vars(first), "number": number})
    return HostedLedger(other, clock=first.now, chance=chance, threads=False)


def test_twenty_workers_push_six_times_a_minute_together_and_hardly_ever_wait() -> None:
    clock, chance = FakeClock(0.0), random.Random(1)
    first = Shared(clock, {}, -1)
    first.enroll([sample_cell(number) for number in range(2000)])
    ledgers = [handle(first, number, chance) for number in range(20)]
    ends: dict[int, tuple[float, Claim]] = {}
    idle, renewed, hours = 0.0, [0.0] * 20, 8
    while clock.now < hours * 3600:
        for number, ledger in enumerate(ledgers):
            ledger.step()
            if number in ends and clock.now >= ends[number][0]:
                ledger.finishing(ends.pop(number)[1].lease, SUCCESS)
            if number not in ends:
                claims = claim_wanted(ledger, first, str(number))
                if claims:
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


def alone() -> tuple[FakeClock, Shared, HostedLedger]:
    clock = FakeClock(0.0)
    first = Shared(clock, {}, 0)
    return clock, first, HostedLedger(first, clock=clock, chance=random.Random(1), threads=False)


def told(clock: FakeClock, ledger: HostedLedger) -> None:
    for _ in range(60):
        clock.advance(1.0)
        if ledger.step():
            return
    raise AssertionError("nothing was told in a minute")


def test_what_comes_together_goes_together_with_cells_claimed_ahead() -> None:
    clock, first, ledger = alone()
    first.enroll([sample_cell(number) for number in range(9)])
    assert claim_wanted(ledger, first, "me", 2) == []
    told(clock, ledger)
    held = claim_wanted(ledger, first, "me", 2)
    assert len(held) == 2
    told(clock, ledger)  # one ahead for each that runs
    ahead = list(first.cells(states=["running"]))[2:]
    assert len(ahead) == 2
    shown = {event.fingerprint for event in ledger.events(kinds=["claimed"])}
    assert shown == {claim.lease.fingerprint for claim in held}  # a follower asks for the others
    before = len(first.pushes[0])
    wishes = [ledger.finishing(claim.lease, SUCCESS) for claim in held]
    ledger.record(Event(kind="used", fingerprint=held[0].lease.fingerprint))
    again = claim_wanted(ledger, first, "me", 2)
    assert len(again) == 2
    told(clock, ledger)
    assert all(wish.told.is_set() and wish.answer is None for wish in wishes)
    assert len(first.pushes[0]) == before + 1
    ledger.close()
    states = [record.state for record in first.cells()]
    assert (states.count("success"), states.count("running")) == (2, 2)  # none is held ahead


def test_who_lost_a_lease_hears_of_it_after_the_push() -> None:
    clock, first, ledger = alone()
    first.enroll([sample_cell(0)])
    claim_wanted(ledger, first, "me")
    told(clock, ledger)
    (claim,) = claim_wanted(ledger, first, "me")
    first.release([claim.lease], "by a person")
    assert ledger.renew([claim.lease]) == [claim.lease]
    told(clock, ledger)
    assert ledger.renew([claim.lease]) == []
    wish = ledger.finishing(claim.lease, SUCCESS)
    told(clock, ledger)
    assert isinstance(wish.answer, ClaimLost)


def test_a_finish_returns_when_the_remote_has_it() -> None:
    first = Shared(FakeClock(0.0), {}, 0)
    first.enroll([sample_cell(0)])
    (claim,) = first.claim(RunnerId("me"), [sample_cell(0).fingerprint])
    ledger = HostedLedger(first, clock=lambda: 100.0 * time.monotonic())  # time flies
    ledger.finish(claim.lease, SUCCESS)
    assert [record.state for record in first.cells()] == ["success"]
    with pytest.raises(ClaimLost):
        ledger.finish(claim.lease, Outcome(state="failed"))
    ledger.close()
