"""Leases are renewed together, and lost ones are reported once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

from benchfleet.domain.attempt import Lease, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import LedgerError
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.attempt.heartbeat import LeaseHeartbeat
from benchfleet.testing.claims import claim_any
from benchfleet.testing.clock import FakeClock
from benchfleet.testing.sample_cells import sample_cell


def unforeseen(error: Exception) -> None:
    raise error


def test_held_leases_do_not_expire_and_lost_ones_are_reported_once() -> None:
    clock = FakeClock()
    ledger = MemoryLedger(clock=clock, lease=60)
    ledger.enroll([sample_cell(n) for n in range(2)])
    claims = claim_any(ledger, RunnerId("us"), 2)
    lost: list[Lease] = []
    heartbeat = LeaseHeartbeat(ledger, lost.append, unforeseen)
    for claim in claims:
        heartbeat.hold(claim.lease)
    clock.advance(50)
    heartbeat.renew()
    clock.advance(50)
    assert ledger.reap() == []
    ledger.release([claims[0].lease], "taken away behind our back")
    heartbeat.renew()
    heartbeat.renew()
    assert lost == [claims[0].lease]
    assert [lease.fingerprint for lease in heartbeat.leases()] == [claims[1].lease.fingerprint]


def test_leases_that_events_end_are_lost_before_the_next_renewal() -> None:
    ledger = MemoryLedger(clock=(clock := FakeClock()), lease=60)
    ledger.enroll([sample_cell(n) for n in range(5)])
    released, reaped, claimed, kept, again = (
        claim.lease for claim in claim_any(ledger, RunnerId("us"), 5)
    )
    lost: list[Lease] = []
    heartbeat = LeaseHeartbeat(ledger, lost.append, unforeseen)
    for lease in (released, reaped, claimed, kept):
        heartbeat.hold(lease)
    ledger.release([released, again], "taken away behind our back")
    (newer,) = ledger.claim(RunnerId("us"), [again.fingerprint])
    heartbeat.hold(newer.lease)  # the event of the earlier lease is read later
    clock.advance(59)
    ledger.renew([claimed, kept, newer.lease])
    clock.advance(1)
    assert list(ledger.reap()) == [reaped.fingerprint]
    for kind in ("cancel_asked", "retry_asked"):
        ledger.record(Event(kind=kind, fingerprint=claimed.fingerprint))
    ledger.claim(RunnerId("them"), [claimed.fingerprint])
    heartbeat.follow(ledger.events())
    heartbeat.follow(ledger.events())
    assert sorted(lost, key=lambda one: one.fingerprint) == sorted(
        [released, reaped, claimed], key=lambda one: one.fingerprint
    )
    assert heartbeat.leases() == [kept, newer.lease]


def test_a_dropped_lease_is_renewed_no_more() -> None:
    clock = FakeClock()
    ledger = MemoryLedger(clock=clock, lease=60)
    ledger.enroll([sample_cell()])
    (claim,) = claim_any(ledger, RunnerId("us"), 1)
    heartbeat = LeaseHeartbeat(ledger, lambda lease: None, unforeseen)
    heartbeat.hold(claim.lease)
    heartbeat.drop(claim.lease)
    clock.advance(61)
    heartbeat.renew()
    assert list(ledger.reap()) == [claim.lease.fingerprint]


def test_ending_an_attempt_drops_no_later_lease_of_the_same_cell() -> None:
    ledger = MemoryLedger(clock=FakeClock(), lease=60)
    ledger.enroll([sample_cell()])
    heartbeat = LeaseHeartbeat(ledger, lambda lease: None, unforeseen)
    leases = []
    for _ in range(2):
        (claim,) = claim_any(ledger, RunnerId("us"), 1)
        heartbeat.hold(claim.lease)
        leases.append(claim.lease)
        if len(leases) == 1:
            ledger.release([claim.lease], "again")
    heartbeat.drop(leases[0])
    assert heartbeat.leases() == [leases[1]]


def test_an_error_that_nobody_foresaw_is_reported_and_not_swallowed() -> None:
    class Faulty(MemoryLedger):
        def renew(self, leases: object) -> list[Lease]:
            raise ZeroDivisionError

    output: queue.SimpleQueue[Exception] = queue.SimpleQueue()
    ledger = Faulty(clock=FakeClock(), lease=60)
    ledger.enroll([sample_cell()])
    heartbeat = LeaseHeartbeat(ledger, lambda lease: None, output.put, every=0.01)
    (claim,) = claim_any(ledger, RunnerId("us"), 1)
    heartbeat.hold(claim.lease)
    heartbeat.start()
    assert isinstance(output.get(timeout=60), ZeroDivisionError)
    heartbeat.stop()


def test_a_keeper_is_behind_once_the_machine_slept_and_not_after_it_renewed() -> None:
    clock = FakeClock()
    ledger = MemoryLedger(clock=clock, lease=60)
    ledger.enroll([sample_cell()])
    heartbeat = LeaseHeartbeat(ledger, lambda lease: None, unforeseen, every=12, clock=clock)
    clock.advance(3600)
    assert not heartbeat.behind()  # there is nothing to renew
    (claim,) = claim_any(ledger, RunnerId("us"), 1)
    heartbeat.renew()
    heartbeat.hold(claim.lease)
    clock.advance(23)
    assert not heartbeat.behind()
    clock.advance(3600)
    assert heartbeat.behind()
    heartbeat.renew()
    assert not heartbeat.behind()
    assert list(ledger.reap()) == []


def test_progress_goes_with_each_renewal_and_never_stops_one() -> None:
    renewals = threading.Semaphore(0)

    class Ledger(MemoryLedger):
        broken = True

        def report_progress(self, progress: WorkerProgress) -> None:
            if self.broken:
                raise LedgerError("no table")
            super().report_progress(progress)

        def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
            renewed = super().renew(leases)
            renewals.release()
            return renewed

    ledger = Ledger()
    ledger.enroll([sample_cell()])
    (claim,) = claim_any(ledger, RunnerId("us"), 1)
    heartbeat = LeaseHeartbeat(ledger, lambda lease: None, unforeseen, every=0.01)
    heartbeat.progress = lambda: WorkerProgress(runner="us", eta=5.0)
    heartbeat.hold(claim.lease)
    heartbeat.start()
    try:
        assert renewals.acquire(timeout=30)
        assert renewals.acquire(timeout=30)
        ledger.broken = False
        while renewals.acquire(blocking=False):
            pass  # those of before
        for _ in range(2):  # the first may have reported before
            assert renewals.acquire(timeout=30)
    finally:
        heartbeat.stop()
    assert [report.eta for report in ledger.progress()] == [5.0]
