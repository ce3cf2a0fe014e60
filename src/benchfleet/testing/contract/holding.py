"""What holding a cell promises: renewals, leases that run out, cells given back."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress
from benchfleet.ledger.base import PROGRESS_KEPT_S
from benchfleet.testing.sample_cells import sample_cell

from .base import LEASE, ME, OTHER, SUCCESS, LedgerFixture


def _report(runner: str, done: int) -> WorkerProgress:
    slot = SlotProgress(devices="gpu:0", cell="a/b", stage="benchmark", done=done, total=90)
    return WorkerProgress(runner=runner, slots=(slot, SlotProgress(devices="gpu:1")), eta=12.5)


class Holding(LedgerFixture):
    """What holding a cell promises: renewals, leases that run out, cells given back."""

    def test_renewing_restarts_the_lease(self) -> None:
        claim = self.running_cell()
        self.clock.advance(LEASE - 1)
        assert list(self.ledger.renew([claim.lease])) == [claim.lease]
        assert self.only_record().expires_in == LEASE
        self.clock.advance(LEASE - 1)
        assert list(self.ledger.reap()) == []

    def test_a_lease_that_ran_out_can_be_renewed_while_nobody_reaped_it(self) -> None:
        claim = self.running_cell()
        self.clock.advance(2 * LEASE)
        assert list(self.ledger.renew([claim.lease])) == [claim.lease]
        assert list(self.ledger.reap()) == []

    def test_a_lease_lasts_as_long_as_its_holder_claimed_it_for(self) -> None:
        claim = self.running_cell()
        with closing(self.open_again(self.clock, LEASE / 10)) as others:
            self.clock.advance(LEASE / 2)
            assert list(others.reap()) == []
            assert list(self.ledger.renew([claim.lease])) == [claim.lease]
            self.clock.advance(LEASE / 2)
            assert list(others.reap()) == []
        self.clock.advance(LEASE / 2)
        assert list(self.ledger.reap()) == [claim.lease.fingerprint]

    def test_only_the_leases_still_held_are_renewed(self) -> None:
        self.enroll(*(sample_cell(n) for n in range(4)))
        valid, ended, released, cancelled = (claim.lease for claim in self.claims(4))
        self.ledger.finish(ended, SUCCESS)
        self.ledger.release([released], "no room")
        self.ledger.record(Event(kind="cancel_asked", fingerprint=cancelled.fingerprint))
        unknown = replace(valid, fingerprint=Fingerprint("unknown"))
        leases = [ended, released, valid, cancelled, unknown]
        assert list(self.ledger.renew(leases)) == [valid]

    def test_a_reaped_lease_is_not_renewed(self) -> None:
        claim = self.running_cell()
        self.clock.advance(LEASE)
        self.ledger.reap()
        assert list(self.ledger.renew([claim.lease])) == []
        newer = self.one_claim(runner=OTHER)
        assert list(self.ledger.renew([claim.lease, newer.lease])) == [newer.lease]

    def test_the_last_progress_of_each_runner_is_seen_with_its_age(self) -> None:
        self.enroll(sample_cell(0), sample_cell(1))
        mine, theirs = self.one_claim(), self.one_claim(runner=OTHER)
        with closing(self.open_again(self.clock, LEASE)) as others:
            assert list(others.progress()) == []
            others.report_progress(_report(OTHER, 5))
            others.renew([theirs.lease])
        for done in (30, 31):
            self.clock.advance(10)
            self.ledger.report_progress(_report(ME, done))
            self.ledger.renew([mine.lease])
        self.clock.advance(2)
        with closing(self.open_again(self.clock, LEASE)) as reader:
            reports = sorted(reader.progress(), key=lambda one: one.runner)
        assert reports == [
            replace(_report(ME, 31), age=2.0),
            replace(_report(OTHER, 5), age=22.0),
        ]

    def test_progress_changes_no_cell_and_is_no_event(self) -> None:
        self.running_cell()
        before = list(self.ledger.cells()), list(self.ledger.events())
        self.ledger.report_progress(_report(ME, 1))
        assert (list(self.ledger.cells()), list(self.ledger.events())) == before

    def test_old_progress_is_forgotten(self) -> None:
        claim = self.running_cell()
        self.ledger.report_progress(_report(ME, 1))
        self.ledger.renew([claim.lease])
        self.clock.advance(PROGRESS_KEPT_S + 1)
        assert list(self.ledger.progress()) == []

    def test_reap_returns_an_expired_claim_once(self) -> None:
        claim = self.running_cell()
        self.clock.advance(LEASE - 1)
        assert list(self.ledger.reap()) == []
        self.clock.advance(1)
        assert list(self.ledger.reap()) == [claim.lease.fingerprint]
        assert list(self.ledger.reap()) == []
        record = self.only_record()
        assert (record.state, record.tries, record.runner) == ("pending", 0, "")
        assert record.expires_in is None

    def test_an_expired_lease_keeps_its_cell_until_it_is_reaped(self) -> None:
        self.running_cell()
        self.clock.advance(10 * LEASE)
        assert self.order_of() == []

    def test_reap_takes_only_what_ran_out(self) -> None:
        self.enroll(sample_cell(0), sample_cell(1))
        old = self.one_claim()
        self.clock.advance(LEASE / 2)
        self.one_claim()
        self.clock.advance(LEASE / 2)
        assert list(self.ledger.reap()) == [old.lease.fingerprint]

    def test_a_released_cell_is_pending_at_once_and_uses_up_no_try(self) -> None:
        claim = self.running_cell()
        self.ledger.release([claim.lease], "shutting down")
        record = self.only_record()
        assert (record.state, record.tries, record.ready_in) == ("pending", 0, 0.0)
        again = self.one_claim(runner=OTHER)
        assert again.lease.token > claim.lease.token
        assert (again.lease.attempt, again.tries) == (2, 0)

    def test_releasing_what_is_no_longer_held_is_passed_over(self) -> None:
        claim = self.running_cell()
        self.ledger.release([claim.lease], "once")
        newer = self.one_claim(runner=OTHER)
        before = list(self.ledger.cells()), list(self.ledger.events())
        unknown = replace(claim.lease, fingerprint=Fingerprint("unknown"))
        self.ledger.release([claim.lease, unknown], "twice")
        assert (list(self.ledger.cells()), list(self.ledger.events())) == before
        self.ledger.finish(newer.lease, SUCCESS)
