"""What a claim promises: the order of its candidates, and never the same cell twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

from benchfleet.domain.attempt import Lease, RunnerId
from benchfleet.domain.event import Event
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell

from .base import FAILED, LEASE, ME, OTHER, RETRIED, SUCCESS, LedgerFixture


class Claiming(LedgerFixture):
    """What a claim promises: the order of its candidates, and never the same cell twice."""

    def test_a_claim_hands_over_lease_cell_and_path(self) -> None:
        cell = sample_cell(gpus=1, vram=10, subset="short", priority=2)
        self.enroll(cell)
        claim = self.one_claim()
        assert claim.lease == Lease(
            fingerprint=cell.fingerprint, attempt=1, token=1, expires_in=LEASE
        )
        assert claim.cell.to_dict() == cell.to_dict()
        assert (claim.path, claim.tries) == (cell.path(marked=False), 0)
        record = self.only_record()
        assert (record.state, record.attempt, record.token) == ("running", 1, 1)
        assert (record.runner, record.expires_in) == (ME, LEASE)

    def test_a_claimed_cell_is_not_claimed_again(self) -> None:
        self.running_cell()
        assert list(self.claims(5, OTHER)) == []

    def test_no_more_is_claimed_than_was_asked_for(self) -> None:
        self.enroll(*(sample_cell(number) for number in range(5)))
        assert [len(self.claims(limit)) for limit in (0, 2, 9)] == [0, 2, 3]

    def test_candidates_are_claimed_in_their_order(self) -> None:
        cells = [sample_cell(n) for n in range(5)]
        self.enroll(*cells)
        expected = [cells[n].fingerprint for n in (3, 0, 4)]
        assert self.order_of(*expected) == expected
        assert [record.state for record in self.ledger.cells()] == [
            *("running", "pending", "pending"),
            *("running", "running"),
        ]

    def test_only_the_first_free_candidates_are_claimed_up_to_the_limit(self) -> None:
        cells = [sample_cell(n) for n in range(5)]
        self.enroll(*cells)
        names = [cell.fingerprint for cell in cells]
        assert self.order_of(names[1]) == [names[1]]
        self.ledger.record(Event(kind="cancel_asked", fingerprint=names[2]))
        assert self.order_of(*names, limit=2) == [names[0], names[3]]
        assert self.order_of(*names, limit=0) == []
        assert self.order_of(*names, limit=2) == [names[4]]

    def test_unknown_and_repeated_candidates_are_passed_over(self) -> None:
        cell = sample_cell()
        self.enroll(cell)
        assert self.order_of("unknown") == []
        assert self.order_of("unknown", cell.fingerprint, cell.fingerprint) == [cell.fingerprint]

    def test_no_candidates_claim_nothing(self) -> None:
        self.enroll(sample_cell())
        assert list(self.ledger.claim(ME, [], 3)) == []

    def test_a_candidate_is_free_again_once_it_was_released_reaped_or_retried(self) -> None:
        cells = [sample_cell(n) for n in range(3)]
        self.enroll(*cells)
        names = [cell.fingerprint for cell in cells]
        ended, released, _ = self.ledger.claim(ME, names, 3)
        self.ledger.finish(ended.lease, FAILED)
        assert self.order_of(*names) == []
        self.ledger.record(Event(kind="retry_asked", fingerprint=names[0]))
        self.ledger.release([released.lease], "no room")
        assert self.order_of(*names) == names[:2]
        self.clock.advance(LEASE)
        assert len(self.ledger.reap()) == 3
        assert self.order_of(*names) == names

    def test_a_candidate_is_passed_over_until_its_back_off_is_over(self) -> None:
        cells = [sample_cell(n) for n in range(2)]
        self.enroll(*cells)
        names = [cell.fingerprint for cell in cells]
        (first,) = self.ledger.claim(ME, names)
        self.ledger.finish(first.lease, RETRIED)
        assert self.order_of(*names) == [names[1]]
        self.clock.advance(9)
        assert self.order_of(*names) == []
        self.clock.advance(1)
        assert self.order_of(*names) == [names[0]]

    def test_a_handle_claims_what_another_handle_enrolled(self) -> None:
        cells = [
            sample_cell(n, source=f"/{folder}/tiny") for n, folder in enumerate(("data", "mnt"))
        ]
        self.enroll(*cells)
        with closing(self.open_again(self.clock, LEASE)) as other:
            (claim,) = other.claim(OTHER, [cells[1].fingerprint])
            assert (claim.cell, claim.path) == (cells[1], cells[1].path(marked=False))
            assert self.order_of(*(cell.fingerprint for cell in cells)) == [cells[0].fingerprint]

    def test_threads_that_claim_at_once_never_share_a_cell(self) -> None:
        cells = [sample_cell(n) for n in range(60)]
        self.enroll(*cells)
        together = Barrier(6)

        def work(number: int) -> list[str]:
            together.wait()
            mine: list[str] = []
            while claims := claim_any(self.ledger, RunnerId(f"runner-{number}"), 2):
                self.ledger.renew([claim.lease for claim in claims])
                for claim in claims:
                    self.ledger.finish(claim.lease, SUCCESS)
                    mine.append(claim.lease.fingerprint)
            return mine

        with ThreadPoolExecutor(6) as pool:
            done = [fingerprint for mine in pool.map(work, range(6)) for fingerprint in mine]
        assert sorted(done) == sorted(cell.fingerprint for cell in cells)
        assert {(r.state, r.attempt) for r in self.ledger.cells()} == {("success", 1)}
