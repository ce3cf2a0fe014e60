"""What a claim promises: order, choice, needs, and never the same cell twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from benchfleet.domain.attempt import Lease, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.testing.samples import sample_cell

from .base import ANY, FAILED, LEASE, ME, OTHER, RETRIED, SUCCESS, OnLedger


class Claiming(OnLedger):
    """What a claim promises: order, choice, needs, and never the same cell twice."""

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
        assert list(self.ledger.claim(OTHER, ANY, 5)) == []

    def test_no_more_is_claimed_than_was_asked_for(self) -> None:
        self.enroll(*(sample_cell(number) for number in range(5)))
        assert [len(self.ledger.claim(ME, ANY, limit)) for limit in (0, 2, 9)] == [0, 2, 3]

    def test_larger_priority_goes_first_then_the_order_of_enrolment(self) -> None:
        cells = [sample_cell(n, priority=p) for n, p in enumerate((0, 5, -1, 5, 0))]
        self.enroll(*cells)
        assert self.order_of() == [cells[n].fingerprint for n in (1, 3, 0, 4, 2)]

    @pytest.mark.parametrize("chosen", [False, True])
    @pytest.mark.parametrize("loaded", [False, True])
    def test_the_best_goes_first_when_cells_are_claimed_one_by_one(
        self, chosen: bool, loaded: bool
    ) -> None:
        cells = [sample_cell(n, priority=p) for n, p in enumerate((0, 5, -1, 5, 0))]
        self.enroll(*cells)
        offer = replace(
            ANY,
            among=Choice(cell.fingerprint for cell in cells) if chosen else None,
            models={cells[0].model.load_key: -1.0} if loaded else {},
        )
        claimed = [self.one_claim(offer).lease.fingerprint for _ in cells]
        assert claimed == [cells[n].fingerprint for n in (1, 3, 0, 4, 2)]

    @pytest.mark.parametrize("chosen", [False, True])
    def test_models_go_by_what_is_added_to_the_rank_of_their_cells(self, chosen: bool) -> None:
        cells = [sample_cell(n, model=m, priority=9 * (m == "c")) for n, m in enumerate("abcadb")]
        self.enroll(*cells)
        a, b, *_ = (cell.model.load_key for cell in cells)
        among = Choice(cell.fingerprint for cell in cells) if chosen else None
        offer = replace(ANY, models={b: 1.0, "unknown": 2.0, a: 3.0}, others=4.0, among=among)
        assert self.order_of(offer) == [cells[n].fingerprint for n in (2, 1, 5, 0, 3, 4)]

    @pytest.mark.parametrize("chosen", [False, True])
    def test_only_the_models_that_are_named_are_claimed_where_no_other_is_wanted(
        self, chosen: bool
    ) -> None:
        cells = [sample_cell(n, model=m, priority=n) for n, m in enumerate("abc")]
        self.enroll(*cells)
        among = Choice(cell.fingerprint for cell in cells) if chosen else None
        offer = replace(ANY, models={cells[1].model.load_key: 0.0}, others=None, among=among)
        assert self.order_of(offer) == [cells[1].fingerprint]
        assert self.order_of(replace(offer, models={})) == []

    @pytest.mark.parametrize("chosen", [False, True])
    def test_a_model_is_named_alike_wherever_a_machine_keeps_its_files(self, chosen: bool) -> None:
        here, there = (
            [sample_cell(n, source=f"/{place}/tiny") for n in range(3)] for place in ("data", "mnt")
        )
        self.enroll(*here)
        among = Choice(cell.fingerprint for cell in here) if chosen else None
        offer = replace(ANY, models={here[0].model.load_key: 0.0}, others=None, among=among)
        assert self.one_claim(offer).cell == here[0]
        assert self.ledger.enroll(there) == 0  # another machine's runner
        assert self.order_of(offer) == [cell.fingerprint for cell in here[1:]]

    def test_smaller_ranks_go_first_within_a_priority(self) -> None:
        cells = [sample_cell(n, model="ab"[n % 2], priority=p) for n, p in enumerate((0, 0, 0, 1))]
        self.enroll(*cells)
        choice = Choice()
        for cell, rank in zip(cells, (5.0, -2.5, 5.0, 7.0), strict=True):
            choice.put(cell.fingerprint, rank)
        offer = replace(ANY, among=choice)
        assert self.order_of(offer) == [cells[n].fingerprint for n in (3, 1, 0, 2)]

    def test_what_is_added_for_a_model_weighs_as_much_as_the_rank(self) -> None:
        cells = [sample_cell(n, model="ab"[n % 2]) for n in range(4)]
        self.enroll(*cells)
        choice = Choice()
        for cell, rank in zip(cells, (1.0, 2.0, 3.0, 4.0), strict=True):
            choice.put(cell.fingerprint, rank)
        offer = replace(ANY, models={cells[0].model.load_key: 1.5}, among=choice)
        assert self.order_of(offer) == [cells[n].fingerprint for n in (1, 0, 3, 2)]

    def test_a_choice_may_change_between_claims(self) -> None:
        cells = [sample_cell(n) for n in range(5)]
        self.enroll(*cells)
        names = [cell.fingerprint for cell in cells]
        choice = Choice(names[:3])
        offer = replace(ANY, among=choice)
        assert self.one_claim(offer).lease.fingerprint == names[0]
        choice.put(names[2], -1.0)
        choice.drop(names[1])
        choice.put(names[4], 1.0)
        choice.drop(names[3])
        choice.put(names[0], -9.0)  # it is held
        assert self.order_of(offer) == [names[2], names[4]]
        choice.put(names[1], 3.0)
        assert self.order_of(offer) == [names[1]]

    def test_wanted_models_share_the_limit_with_the_rest(self) -> None:
        cells = [sample_cell(n, model=m) for n, m in enumerate("aabb")]
        self.enroll(*cells)
        offer = replace(ANY, models={cells[2].model.load_key: -1.0})
        assert self.order_of(offer, limit=3) == [cells[n].fingerprint for n in (2, 3, 0)]
        assert self.order_of(offer, limit=3) == [cells[1].fingerprint]

    @pytest.mark.parametrize(
        ("gpus", "vram", "offered_gpus", "offered_vram", "fits"),
        [
            (0, 0, 0, 0, True),
            (0, 0, 2, 80, True),
            (1, 0, 0, 0, False),
            (1, 0, 1, 0, True),
            (2, 0, 1, 80, False),
            (1, 40, 1, 39, False),
            (1, 40, 1, 40, True),
            (1, 40, 4, 80, True),
            (0, 40, 0, 39, False),
            (0, 40, 0, 40, True),
        ],
    )
    def test_only_cells_whose_needs_fit_are_claimed(
        self, gpus: int, vram: int, offered_gpus: int, offered_vram: int, fits: bool
    ) -> None:
        cell = sample_cell(gpus=gpus, vram=vram)
        self.enroll(cell)
        offer = Offer(gpus=offered_gpus, vram=offered_vram)
        assert self.order_of(offer) == [cell.fingerprint] * fits
        wanted = replace(offer, models={cell.model.load_key: -1.0})
        assert self.order_of(wanted) == []

    def test_a_wanted_model_does_not_make_a_cell_fit(self) -> None:
        cell = sample_cell(gpus=2)
        self.enroll(cell)
        assert self.order_of(Offer(gpus=1, models={cell.model.load_key: -1.0})) == []

    def test_only_chosen_fingerprints_are_claimed(self) -> None:
        cells = [sample_cell(n, priority=n % 3, model="ab"[n % 2]) for n in range(8)]
        self.enroll(*cells)
        chosen = Choice([*(cells[n].fingerprint for n in (1, 2, 5, 6)), "unknown"])
        offer = replace(ANY, among=chosen, models={cells[1].model.load_key: -1.0})
        assert self.order_of(offer) == [cells[n].fingerprint for n in (5, 2, 1, 6)]
        assert self.order_of(replace(ANY, among=Choice())) == []
        assert len(self.order_of()) == 4

    def test_a_choice_follows_what_happens_between_claims(self) -> None:
        cells = [sample_cell(n) for n in range(6)]
        chosen = replace(ANY, among=Choice(cell.fingerprint for cell in cells[1:5]))
        self.enroll(*cells[:4])
        first = self.one_claim(chosen)
        assert first.lease.fingerprint == cells[1].fingerprint
        self.ledger.record(Event(kind="cancel_asked", fingerprint=cells[2].fingerprint))
        self.ledger.finish(first.lease, FAILED)
        second = self.one_claim(chosen)
        assert second.lease.fingerprint == cells[3].fingerprint
        self.enroll(*cells[4:])  # one of them was chosen before it was known
        third = self.one_claim(chosen)
        assert third.lease.fingerprint == cells[4].fingerprint
        assert self.order_of(chosen) == []
        self.ledger.record(Event(kind="retry_asked", fingerprint=cells[1].fingerprint))
        self.ledger.release([third.lease], "no room")
        assert self.order_of(chosen) == [cells[1].fingerprint, cells[4].fingerprint]
        self.clock.advance(LEASE)
        assert len(self.ledger.reap()) == 3
        assert self.order_of(chosen) == [cells[n].fingerprint for n in (1, 3, 4)]

    def test_a_chosen_cell_comes_back_when_its_back_off_is_over(self) -> None:
        cells = [sample_cell(n) for n in range(3)]
        self.enroll(*cells)
        chosen = replace(ANY, among=Choice(cell.fingerprint for cell in cells[:2]))
        first = self.one_claim(chosen)
        self.ledger.finish(first.lease, RETRIED)
        second = self.one_claim(chosen)
        assert second.lease.fingerprint == cells[1].fingerprint
        self.clock.advance(9)
        assert self.order_of(chosen) == []
        self.clock.advance(1)
        assert self.order_of(chosen) == [cells[0].fingerprint]

    def test_choices_may_alternate(self) -> None:
        cells = [sample_cell(n) for n in range(6)]
        self.enroll(*cells)
        even = replace(ANY, among=Choice(c.fingerprint for c in cells[::2]))
        odd = replace(ANY, among=Choice(c.fingerprint for c in cells[1::2]))
        claimed = [self.one_claim(offer).lease.fingerprint for offer in (odd, even, odd, ANY, even)]
        assert claimed == [cells[n].fingerprint for n in (1, 0, 3, 2, 4)]

    def test_threads_that_claim_at_once_never_share_a_cell(self) -> None:
        cells = [sample_cell(n) for n in range(60)]
        self.enroll(*cells)
        together = Barrier(6)

        def work(number: int) -> list[str]:
            together.wait()
            mine: list[str] = []
            while claims := self.ledger.claim(RunnerId(f"runner-{number}"), ANY, 2):
                self.ledger.renew([claim.lease for claim in claims])
                for claim in claims:
                    self.ledger.finish(claim.lease, SUCCESS)
                    mine.append(claim.lease.fingerprint)
            return mine

        with ThreadPoolExecutor(6) as pool:
            done = [fingerprint for mine in pool.map(work, range(6)) for fingerprint in mine]
        assert sorted(done) == sorted(cell.fingerprint for cell in cells)
        assert {(r.state, r.attempt) for r in self.ledger.cells()} == {("success", 1)}
