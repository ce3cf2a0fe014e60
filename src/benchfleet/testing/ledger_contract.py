"""The ledger contract as a test suite: whoever writes a ledger derives from it.

    class TestMyLedger(LedgerContract):
        def make_ledger(self, clock, lease):
            return MyLedger(self.folder / "my.ledger", clock=clock, lease=lease)

`make_ledger` gives a fresh ledger, once in a test. A ledger that several processes can open
also overrides `open_again`, which gives another handle on the store made last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from benchfleet.domain.attempt import Advice, CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Choice, Offer
from benchfleet.domain.state import FINAL_STATES, FinalState
from benchfleet.errors import ClaimLost, LedgerError
from benchfleet.ledger.base import Ledger

from .clock import FakeClock
from .samples import sample_cell

LEASE = 60.0
ME, OTHER = RunnerId("me"), RunnerId("other")
ANY = Offer(gpus=8, vram=10**12)
SUCCESS = Outcome(
    state="success",
    digest="abc",
    metrics={"overall": 0.5, "tasks": {"a": 1.0}},
    seconds={"load": 1.5},
    host="here",
    device="cpu:0",
)
OOM = Failure(stage="benchmark", kind="oom", message="no memory", retryable=True, trace="…")
FAILED = Outcome(state="failed", failure=OOM)
RETRIED = replace(FAILED, retry_in=10.0)


class LedgerContract(ABC):
    """Every sentence of `benchfleet.ledger.base`, checked through the public verbs."""

    folder: Path  # a fresh one for each test
    clock: FakeClock
    ledger: Ledger

    @abstractmethod
    def make_ledger(self, clock: Callable[[], float], lease: float) -> Ledger:
        """A fresh, empty ledger."""

    def open_again(self, clock: Callable[[], float], lease: float) -> Ledger:
        """Another handle on the store of `self.ledger`."""
        return self.ledger

    @pytest.fixture(autouse=True)
    def _fresh_ledger(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        self.clock = FakeClock()
        with closing(self.make_ledger(self.clock, LEASE)) as self.ledger:
            yield

    # What the tests below say often.

    def enroll(self, *cells: Cell) -> None:
        assert self.ledger.enroll(cells) == len(cells)

    def one_claim(self, offer: Offer = ANY, runner: RunnerId = ME) -> Claim:
        (claim,) = self.ledger.claim(runner, offer)
        return claim

    def running_cell(self) -> Claim:
        self.enroll(sample_cell())
        return self.one_claim()

    def record_of(self, fingerprint: str) -> CellRecord:
        (record,) = self.ledger.cells(among=[fingerprint])
        return record

    def only_record(self) -> CellRecord:
        (record,) = self.ledger.cells()
        return record

    def order_of(self, offer: Offer = ANY, limit: int = 100) -> list[str]:
        return [claim.lease.fingerprint for claim in self.ledger.claim(ME, offer, limit)]

    def kinds(self, fingerprint: str) -> list[str]:
        return [event.kind for event in self.ledger.events() if event.fingerprint == fingerprint]

    # Enrolling

    def test_an_enrolled_cell_is_pending_and_untried(self) -> None:
        cell = sample_cell()
        self.enroll(cell)
        assert self.only_record() == CellRecord(
            fingerprint=cell.fingerprint,
            id=cell.id,
            path=cell.path(marked=False),
            state="pending",
            attempt=0,
            tries=0,
            token=0,
        )

    def test_enrolling_says_how_many_were_new_and_keeps_their_order(self) -> None:
        cells = [sample_cell(number) for number in (3, 1, 2)]
        assert self.ledger.enroll(iter(cells)) == 3
        assert self.ledger.enroll([sample_cell(0), *cells]) == 1
        wanted = [cell.fingerprint for cell in (*cells, sample_cell(0))]
        assert [record.fingerprint for record in self.ledger.cells()] == wanted

    def test_enrolling_nothing_changes_nothing(self) -> None:
        assert self.ledger.enroll([]) == 0
        assert list(self.ledger.cells()) == []
        assert list(self.ledger.events()) == []

    def test_a_cell_that_comes_twice_in_one_enrolment_is_one_cell(self) -> None:
        assert self.ledger.enroll([sample_cell(), sample_cell()]) == 1
        assert len(list(self.ledger.cells())) == 1

    def test_enrolling_again_leaves_a_cell_as_it_stands(self) -> None:
        claim = self.running_cell()
        before = list(self.ledger.cells()), list(self.ledger.events())
        assert self.ledger.enroll([sample_cell()]) == 0
        assert (list(self.ledger.cells()), list(self.ledger.events())) == before
        self.ledger.finish(claim.lease, SUCCESS)
        assert self.ledger.enroll([sample_cell()]) == 0
        assert self.only_record().state == "success"

    def test_an_enrolment_that_breaks_off_leaves_nothing(self) -> None:
        def broken() -> Iterator[Cell]:
            yield sample_cell()
            raise KeyError("the matrix broke")

        with pytest.raises(KeyError, match="the matrix broke"):
            self.ledger.enroll(broken())
        assert list(self.ledger.cells()) == []
        self.enroll(sample_cell())

    def test_needs_limits_priority_and_place_of_the_model_follow_the_campaign(self) -> None:
        self.enroll(sample_cell(1), sample_cell(2))
        changed = sample_cell(
            2,
            gpus=2,
            vram=5,
            tries=9,
            priority=4,
            phase="e1",
            source="elsewhere",
            python="env/python",
            outside={"timeout": "2h"},
        )
        assert self.ledger.enroll([sample_cell(1), changed]) == 0
        assert self.ledger.claim(ME, Offer(gpus=2, vram=4), 2)[0].cell == sample_cell(1)
        cell = self.one_claim().cell
        assert cell.fingerprint == changed.fingerprint
        assert cell.to_dict() == changed.to_dict()

    def test_the_last_word_on_a_cell_in_one_enrolment_counts(self) -> None:
        assert self.ledger.enroll([sample_cell(priority=1), sample_cell(priority=2)]) == 1
        assert self.one_claim().cell.priority == 2
        assert self.ledger.events()[0].data == {"new": 1, "changed": 1}

    def test_what_names_a_cell_stays_as_first_enrolled(self) -> None:
        self.enroll(sample_cell(model="first", digest="same"))
        assert self.ledger.enroll([sample_cell(model="second", digest="same")]) == 0
        assert self.only_record().path == "first/dense/benchmark-0"
        assert self.only_record().id == "first/dense/benchmark-0"
        assert self.one_claim().cell.model.name == "first"

    def test_a_running_cell_follows_the_campaign_once_it_is_pending_again(self) -> None:
        claim = self.running_cell()
        assert self.ledger.enroll([sample_cell(gpus=4)]) == 0
        self.ledger.release([claim.lease], "shutting down")
        assert self.order_of(Offer(gpus=3)) == []
        assert self.order_of(Offer(gpus=4)) == [claim.lease.fingerprint]

    @pytest.mark.parametrize("state", FINAL_STATES)
    def test_a_cell_that_ended_no_longer_follows_the_campaign(self, state: FinalState) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, Outcome(state=state))
        assert self.ledger.enroll([sample_cell(priority=7)]) == 0
        (record,) = self.ledger.cells(whole=True)
        assert record.state == state
        assert record.cell is not None
        assert record.cell.priority == 0

    # Paths

    def test_an_equal_name_with_other_content_gets_a_marked_path(self) -> None:
        first, second = sample_cell(version="1"), sample_cell(version="2")
        self.enroll(first, second)
        paths = [record.path for record in self.ledger.cells()]
        assert paths == [first.path(marked=False), second.path(marked=True)]

    def test_a_path_inside_an_allotted_one_is_marked(self) -> None:
        whole, repeat = sample_cell(version="1"), sample_cell(version="2", repeats=True, repeat=1)
        self.enroll(whole)
        self.enroll(repeat)
        assert self.record_of(repeat.fingerprint).path == repeat.path(marked=True)

    def test_a_path_that_holds_an_allotted_one_is_marked(self) -> None:
        repeat, whole = sample_cell(version="1", repeats=True, repeat=1), sample_cell(version="2")
        self.enroll(repeat)
        self.enroll(whole)
        assert self.record_of(whole.fingerprint).path == whole.path(marked=True)

    def test_paths_that_only_begin_alike_are_both_plain(self) -> None:
        names = ("recall", "recall_a", "recall-b", "recall0", "rec")
        cells = [sample_cell(benchmark=name) for name in names]
        repeats = [sample_cell(benchmark="many", repeats=True, repeat=r) for r in range(3)]
        self.enroll(*cells, *repeats)
        wanted = [cell.path(marked=False) for cell in (*cells, *repeats)]
        assert [record.path for record in self.ledger.cells()] == wanted

    def test_a_cell_whose_marked_path_is_taken_too_is_refused_and_nothing_enrolled(self) -> None:
        second = sample_cell(version="2")
        squatter = sample_cell(benchmark=f"benchmark-0@{second.fingerprint[:8]}")
        self.enroll(squatter, sample_cell(version="1"))
        with pytest.raises(LedgerError, match="belongs to another cell"):
            self.ledger.enroll([sample_cell(5), second])
        assert len(list(self.ledger.cells())) == 2
        self.enroll(sample_cell(5))
        assert self.record_of(sample_cell(5).fingerprint).path == sample_cell(5).path(marked=False)

    def test_a_cell_whose_results_lie_somewhere_is_enrolled_with_that_path(self) -> None:
        first, second = sample_cell(version="1"), sample_cell(version="2")
        marked = {second.fingerprint: second.path(marked=True)}
        assert self.ledger.enroll([second], paths=marked) == 1
        self.enroll(first)
        paths = [record.path for record in self.ledger.cells()]
        assert paths == [second.path(marked=True), first.path(marked=False)]

    def test_a_path_that_is_given_for_a_known_cell_changes_nothing(self) -> None:
        cell = sample_cell()
        self.enroll(cell)
        assert self.ledger.enroll([cell], paths={cell.fingerprint: cell.path(marked=True)}) == 0
        assert self.only_record().path == cell.path(marked=False)

    @pytest.mark.parametrize("given", ["tiny/dense/benchmark-0", "tiny/dense/benchmark-0/r1"])
    def test_a_given_path_that_is_taken_refuses_the_enrolment(self, given: str) -> None:
        self.enroll(sample_cell(0))
        with pytest.raises(LedgerError, match=f"{given} belongs to another cell"):
            self.ledger.enroll(
                [sample_cell(1), sample_cell(2)], paths={sample_cell(2).fingerprint: given}
            )
        assert len(list(self.ledger.cells())) == 1

    def test_a_path_is_kept_whatever_is_enrolled_later(self) -> None:
        second = sample_cell(version="2")
        self.enroll(sample_cell(version="1"), second)
        self.ledger.enroll([second])
        assert self.record_of(second.fingerprint).path == second.path(marked=True)
        claims = {c.lease.fingerprint: c.path for c in self.ledger.claim(ME, ANY, 2)}
        assert claims[second.fingerprint] == second.path(marked=True)

    # Claiming

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

    # Holding

    def test_renewing_begins_the_time_anew(self) -> None:
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

    def test_only_the_leases_still_held_are_renewed(self) -> None:
        self.enroll(*(sample_cell(n) for n in range(4)))
        held, ended, given_back, cancelled = (
            claim.lease for claim in self.ledger.claim(ME, ANY, 4)
        )
        self.ledger.finish(ended, SUCCESS)
        self.ledger.release([given_back], "no room")
        self.ledger.record(Event(kind="cancel_asked", fingerprint=cancelled.fingerprint))
        unknown = replace(held, fingerprint=Fingerprint("unknown"))
        asked = [ended, given_back, held, cancelled, unknown]
        assert list(self.ledger.renew(asked)) == [held]

    def test_a_reaped_lease_is_not_renewed(self) -> None:
        claim = self.running_cell()
        self.clock.advance(LEASE)
        self.ledger.reap()
        assert list(self.ledger.renew([claim.lease])) == []
        newer = self.one_claim(runner=OTHER)
        assert list(self.ledger.renew([claim.lease, newer.lease])) == [newer.lease]

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

    def test_a_cell_given_back_is_pending_at_once_and_uses_up_no_try(self) -> None:
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

    # Finishing

    @pytest.mark.parametrize("state", FINAL_STATES)
    def test_finishing_gives_the_final_state_and_keeps_the_outcome(self, state: FinalState) -> None:
        claim = self.running_cell()
        outcome = replace(SUCCESS, state=state, failure=OOM)
        self.ledger.finish(claim.lease, outcome)
        record = self.only_record()
        assert (record.state, record.outcome, record.tries) == (state, outcome, 1)
        assert (record.runner, record.expires_in, record.ready_in) == ("", None, 0.0)
        assert self.order_of() == []

    def test_a_finish_asked_again_is_silent_and_changes_nothing(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, SUCCESS)
        before = list(self.ledger.cells()), list(self.ledger.events())
        self.ledger.finish(claim.lease, SUCCESS)
        self.ledger.finish(claim.lease, replace(SUCCESS, host="told differently"))
        assert (list(self.ledger.cells()), list(self.ledger.events())) == before

    def test_a_finish_with_a_retry_asked_again_is_silent_even_when_claimed_anew(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, replace(RETRIED, retry_in=0.0))
        self.ledger.finish(claim.lease, replace(RETRIED, retry_in=0.0))
        newer = self.one_claim(runner=OTHER)
        self.ledger.finish(claim.lease, replace(RETRIED, retry_in=0.0))
        record = self.only_record()
        assert (record.state, record.tries, record.token) == ("running", 1, newer.lease.token)

    @pytest.mark.parametrize("other", [replace(SUCCESS, digest="other"), FAILED, RETRIED])
    def test_a_second_finish_with_another_outcome_is_refused(self, other: Outcome) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, SUCCESS)
        with pytest.raises(ClaimLost):
            self.ledger.finish(claim.lease, other)
        assert self.only_record().outcome == SUCCESS
        assert self.only_record().tries == 1

    def test_an_attempt_that_ended_in_a_retry_cannot_succeed_afterwards(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, RETRIED)
        with pytest.raises(ClaimLost):
            self.ledger.finish(claim.lease, SUCCESS)
        assert self.only_record().state == "pending"

    def test_a_finish_is_good_after_the_lease_ran_out(self) -> None:
        claim = self.running_cell()
        self.clock.advance(2 * LEASE)
        self.ledger.finish(claim.lease, SUCCESS)
        assert self.only_record().state == "success"
        assert list(self.ledger.reap()) == []

    def test_a_finish_is_good_after_a_reap_while_nobody_else_claimed(self) -> None:
        claim = self.running_cell()
        self.clock.advance(LEASE)
        self.ledger.reap()
        self.ledger.finish(claim.lease, SUCCESS)
        assert (self.only_record().state, self.only_record().outcome) == ("success", SUCCESS)
        assert self.order_of() == []

    def test_a_late_retry_is_good_after_a_reap_too(self) -> None:
        claim = self.running_cell()
        self.clock.advance(LEASE)
        self.ledger.reap()
        self.ledger.finish(claim.lease, RETRIED)
        assert self.order_of() == []
        self.clock.advance(10)
        assert self.order_of() == [claim.lease.fingerprint]

    def test_a_finish_is_refused_once_a_newer_claim_exists(self) -> None:
        claim = self.running_cell()
        self.clock.advance(LEASE)
        self.ledger.reap()
        newer = self.one_claim(runner=OTHER)
        with pytest.raises(ClaimLost):
            self.ledger.finish(claim.lease, SUCCESS)
        assert self.only_record().state == "running"
        self.ledger.finish(newer.lease, FAILED)
        with pytest.raises(ClaimLost):
            self.ledger.finish(claim.lease, SUCCESS)
        assert self.only_record().outcome == FAILED

    def test_a_finish_is_refused_after_a_release(self) -> None:
        claim = self.running_cell()
        self.ledger.release([claim.lease], "no room")
        with pytest.raises(ClaimLost):
            self.ledger.finish(claim.lease, SUCCESS)
        assert self.only_record().state == "pending"

    def test_finishing_an_unknown_cell_is_refused(self) -> None:
        claim = self.running_cell()
        with pytest.raises(ClaimLost):
            self.ledger.finish(replace(claim.lease, fingerprint=Fingerprint("unknown")), SUCCESS)

    def test_a_retry_waits_out_its_back_off_by_the_ledgers_clock(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, RETRIED)
        record = self.only_record()
        assert (record.state, record.ready_in, record.outcome) == ("pending", 10.0, RETRIED)
        self.clock.advance(9)
        assert self.only_record().ready_in == 1.0
        assert self.order_of() == []
        self.clock.advance(1)
        again = self.one_claim()
        assert (again.lease.attempt, again.tries) == (2, 1)
        assert again.lease.token > claim.lease.token
        assert self.only_record().ready_in == 0.0

    @pytest.mark.parametrize(("charged", "tries"), [(True, 1), (False, 0)])
    def test_only_a_charged_outcome_uses_up_a_try(self, charged: bool, tries: int) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, replace(RETRIED, retry_in=0.0, charged=charged))
        assert self.only_record().tries == tries
        assert self.one_claim().tries == tries

    @pytest.mark.parametrize("chosen", [False, True])
    def test_a_claim_brings_the_outcome_that_asked_for_it(self, chosen: bool) -> None:
        cell = sample_cell()
        self.enroll(cell)
        offer = replace(ANY, among=Choice([cell.fingerprint]) if chosen else None)
        first = self.one_claim(offer)
        assert (first.after, first.advice) == (None, Advice())
        asked = replace(
            RETRIED,
            retry_in=0.0,
            advice=Advice(batch_size=4, alone=True, vram=10),
            first=OOM,
            failures={"oom": 2},
        )
        self.ledger.finish(first.lease, asked)
        second = self.one_claim(offer)
        assert (second.after, second.advice) == (asked, asked.advice)
        self.ledger.release([second.lease], "not here")
        third = self.one_claim(offer, OTHER)
        assert third.after == asked
        self.clock.advance(LEASE)
        self.ledger.reap()
        assert self.one_claim(offer).after == asked

    def test_a_cell_that_is_to_be_tried_again_from_the_beginning_brings_none(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, replace(FAILED, advice=Advice(batch_size=1)))
        self.ledger.record(Event(kind="retry_asked", fingerprint=claim.lease.fingerprint))
        assert self.one_claim().after is None

    # Reading

    def test_cells_are_chosen_by_state_and_fingerprint(self) -> None:
        cells = [sample_cell(n) for n in range(4)]
        self.enroll(*cells)
        for claim in self.ledger.claim(ME, ANY, 2):
            if claim.lease.fingerprint == cells[0].fingerprint:
                self.ledger.finish(claim.lease, SUCCESS)

        def found(**chosen: Sequence[str]) -> list[int]:
            records = self.ledger.cells(**chosen)  # type: ignore[arg-type]
            numbers = {cell.fingerprint: number for number, cell in enumerate(cells)}
            return [numbers[record.fingerprint] for record in records]

        assert found() == [0, 1, 2, 3]
        assert found(states=["pending"]) == [2, 3]
        assert found(states=["success", "running"]) == [0, 1]
        assert found(states=[]) == []
        among = [cells[3].fingerprint, cells[0].fingerprint, "unknown"]
        assert found(among=among) == [0, 3]
        assert found(among=among, states=["pending"]) == [3]
        assert found(among=[]) == []

    def test_the_cell_comes_along_only_when_asked_for(self) -> None:
        cell = sample_cell(gpus=2, tries=5)
        self.enroll(cell)
        assert self.only_record().cell is None
        (record,) = self.ledger.cells(whole=True)
        assert record.cell is not None
        assert record.cell.to_dict() == cell.to_dict()

    def test_a_ledger_can_be_written_while_its_cells_are_read(self) -> None:
        cells = [sample_cell(n) for n in range(20)]
        self.enroll(*cells)
        for record in self.ledger.cells():
            self.ledger.record(Event(kind="cancel_asked", fingerprint=record.fingerprint))
        assert {record.state for record in self.ledger.cells()} == {"cancelled"}

    def test_another_handle_sees_and_shares_everything(self) -> None:
        self.enroll(sample_cell(0), sample_cell(1))
        mine = self.one_claim()
        with ExitStack() as stack:
            other = self.open_again(self.clock, LEASE)
            if other is not self.ledger:
                stack.enter_context(closing(other))
            (theirs,) = other.claim(OTHER, ANY, 5)
            assert theirs.lease.fingerprint == sample_cell(1).fingerprint
            other.finish(mine.lease, SUCCESS)
            self.ledger.release([theirs.lease], "no room")
            assert list(other.renew([mine.lease, theirs.lease])) == []
            assert list(other.cells()) == list(self.ledger.cells())
            assert list(other.events()) == list(self.ledger.events())
            chosen = replace(ANY, among=Choice([sample_cell(1).fingerprint]))
            (again,) = self.ledger.claim(ME, chosen)
            other.finish(again.lease, replace(FAILED, retry_in=0.0))
            (third,) = self.ledger.claim(ME, chosen)
            other.finish(third.lease, FAILED)
            assert list(self.ledger.claim(ME, chosen)) == []

    # Events

    def test_the_ledger_records_the_history_of_a_cell(self) -> None:
        cell = sample_cell()
        self.enroll(cell)
        self.clock.advance(1)
        first = self.one_claim()
        self.ledger.release([first.lease], "no room")
        second = self.one_claim(runner=OTHER)
        self.clock.advance(LEASE)
        self.ledger.reap()
        third = self.one_claim()
        self.ledger.finish(third.lease, FAILED)

        def facts(claim: Claim, runner: str) -> dict[str, object]:
            return {"attempt": claim.lease.attempt, "token": claim.lease.token, "runner": runner}

        start = self.clock.now - LEASE - 1
        assert [(e.kind, e.fingerprint, e.at - start, e.data) for e in self.ledger.events()] == [
            ("enrolled", "", 0, {"new": 1, "changed": 0}),
            ("claimed", cell.fingerprint, 1, facts(first, ME)),
            ("released", cell.fingerprint, 1, {**facts(first, ME), "reason": "no room"}),
            ("claimed", cell.fingerprint, 1, facts(second, OTHER)),
            ("reaped", cell.fingerprint, LEASE + 1, facts(second, OTHER)),
            ("claimed", cell.fingerprint, LEASE + 1, facts(third, ME)),
            (
                "finished",
                cell.fingerprint,
                LEASE + 1,
                {**facts(third, ME), "outcome": FAILED.to_dict()},
            ),
        ]

    def test_an_enrolment_that_only_changes_needs_is_recorded(self) -> None:
        self.enroll(sample_cell(0), sample_cell(1))
        self.ledger.enroll([sample_cell(0, priority=1), sample_cell(1)])
        assert [event.data for event in self.ledger.events() if event.kind == "enrolled"] == [
            {"new": 2, "changed": 0},
            {"new": 0, "changed": 1},
        ]

    def test_recorded_events_are_kept_in_order_with_time_and_number(self) -> None:
        first = self.ledger.record(Event(kind="host_drained", data={"host": "a", "gpus": [0, 1]}))
        self.clock.advance(5)
        second = self.ledger.record(Event(kind="gate_opened", seq=99, at=1.0))
        assert second > first > 0
        assert list(self.ledger.events()) == [
            Event(
                kind="host_drained",
                data={"host": "a", "gpus": [0, 1]},
                seq=first,
                at=self.clock.now - 5,
            ),
            Event(kind="gate_opened", seq=second, at=self.clock.now),
        ]
        assert [event.seq for event in self.ledger.events(since=first)] == [second]
        assert list(self.ledger.events(since=second)) == []

    def test_the_events_of_some_cells_alone_can_be_asked_for(self) -> None:
        self.enroll(sample_cell(0), sample_cell(1))
        first, second = self.ledger.claim(ME, ANY, 2)
        self.ledger.finish(second.lease, SUCCESS)
        name = second.lease.fingerprint
        found = self.ledger.events(among=[name])
        assert [event.kind for event in found] == ["claimed", "finished"]
        assert self.ledger.events(since=found[0].seq, among=[name]) == found[1:]
        assert len(self.ledger.events(among=[name, first.lease.fingerprint])) == 3
        assert list(self.ledger.events(among=[])) == []
        assert [event.kind for event in self.ledger.events(kinds=["claimed"])] == ["claimed"] * 2
        assert list(self.ledger.events(since=found[-1].seq, among=[name], kinds=["claimed"])) == []
        assert list(self.ledger.events(kinds=[])) == []

    def test_the_events_about_no_cell_can_be_asked_for(self) -> None:
        self.enroll(sample_cell(0))
        [claim] = self.ledger.claim(ME, ANY)
        seq = self.ledger.record(Event(kind="slots_asked", data={"runner": ME}))
        found = self.ledger.events(among=[""], kinds=["slots_asked", "claimed"])
        assert [event.kind for event in found] == ["slots_asked"]
        assert list(self.ledger.events(since=seq, among=[""])) == []
        both = self.ledger.events(since=seq - 2, among=["", claim.lease.fingerprint])
        assert [event.kind for event in both] == ["claimed", "slots_asked"]

    def test_an_event_about_an_unknown_cell_is_only_kept(self) -> None:
        self.enroll(sample_cell())
        self.ledger.record(Event(kind="cancel_asked", fingerprint="unknown"))
        self.ledger.record(Event(kind="retry_asked", fingerprint="unknown"))
        assert self.kinds("unknown") == ["cancel_asked", "retry_asked"]
        assert self.only_record().state == "pending"

    @pytest.mark.parametrize("state", FINAL_STATES)
    def test_a_retry_asked_makes_an_ended_cell_pending_with_its_tries_forgotten(
        self, state: FinalState
    ) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, replace(FAILED, state=state))
        self.ledger.record(Event(kind="retry_asked", fingerprint=claim.lease.fingerprint))
        record = self.only_record()
        assert (record.state, record.tries, record.attempt) == ("pending", 0, 1)
        again = self.one_claim()
        assert (again.lease.attempt, again.tries) == (2, 0)
        assert self.kinds(claim.lease.fingerprint) == [
            "claimed",
            "finished",
            "retry_asked",
            "claimed",
        ]

    def test_a_writer_from_before_a_retry_was_asked_cannot_end_the_cell_again(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, FAILED)
        self.ledger.record(Event(kind="retry_asked", fingerprint=claim.lease.fingerprint))
        self.ledger.finish(claim.lease, FAILED)
        with pytest.raises(ClaimLost):
            self.ledger.finish(claim.lease, SUCCESS)
        assert self.only_record().state == "pending"

    def test_a_retry_asked_of_a_cell_that_has_not_ended_changes_nothing(self) -> None:
        claim = self.running_cell()
        before = list(self.ledger.cells())
        self.ledger.record(Event(kind="retry_asked", fingerprint=claim.lease.fingerprint))
        assert list(self.ledger.cells()) == before
        self.ledger.finish(claim.lease, RETRIED)
        self.ledger.record(Event(kind="retry_asked", fingerprint=claim.lease.fingerprint))
        assert self.only_record().tries == 1
        assert self.order_of() == []

    def test_a_cancelled_pending_cell_is_not_claimed(self) -> None:
        cell = sample_cell()
        self.enroll(cell)
        self.ledger.record(Event(kind="cancel_asked", fingerprint=cell.fingerprint))
        assert self.only_record().state == "cancelled"
        assert self.order_of() == []

    def test_cancelling_a_running_cell_takes_the_claim_from_its_holder(self) -> None:
        claim = self.running_cell()
        self.ledger.record(Event(kind="cancel_asked", fingerprint=claim.lease.fingerprint))
        assert list(self.ledger.renew([claim.lease])) == []
        with pytest.raises(ClaimLost):
            self.ledger.finish(claim.lease, SUCCESS)
        self.clock.advance(LEASE)
        assert list(self.ledger.reap()) == []
        record = self.only_record()
        assert (record.state, record.runner, record.expires_in) == ("cancelled", "", None)
        assert record.token > claim.lease.token

    def test_cancelling_a_cell_in_its_back_off_ends_the_waiting(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, RETRIED)
        self.ledger.record(Event(kind="cancel_asked", fingerprint=claim.lease.fingerprint))
        assert self.only_record().ready_in == 0.0
        self.ledger.record(Event(kind="retry_asked", fingerprint=claim.lease.fingerprint))
        assert self.order_of() == [claim.lease.fingerprint]

    def test_cancelling_a_cell_that_ended_changes_nothing(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, SUCCESS)
        before = list(self.ledger.cells())
        self.ledger.record(Event(kind="cancel_asked", fingerprint=claim.lease.fingerprint))
        assert list(self.ledger.cells()) == before
