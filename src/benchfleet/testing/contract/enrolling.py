"""What enrolment promises: cells, what follows the campaign, and their paths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.state import FINAL_STATES, FinalState
from benchfleet.errors import LedgerError
from benchfleet.testing.sample_cells import sample_cell

from .base import ME, SUCCESS, LedgerFixture


class Enrolling(LedgerFixture):
    """What enrolment promises: cells, what follows the campaign, and their paths."""

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

    def test_enrolling_returns_how_many_were_new_and_keeps_their_order(self) -> None:
        cells = [sample_cell(number) for number in (3, 1, 2)]
        assert self.ledger.enroll(iter(cells)) == 3
        assert self.ledger.enroll([sample_cell(0), *cells]) == 1
        expected = [cell.fingerprint for cell in (*cells, sample_cell(0))]
        assert [record.fingerprint for record in self.ledger.cells()] == expected

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
        assert self.ledger.claim(ME, [sample_cell(1).fingerprint])[0].cell == sample_cell(1)
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
        assert self.one_claim().cell.need.gpus == 4

    @pytest.mark.parametrize("state", FINAL_STATES)
    def test_a_cell_that_ended_no_longer_follows_the_campaign(self, state: FinalState) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, Outcome(state=state))
        assert self.ledger.enroll([sample_cell(priority=7)]) == 0
        (record,) = self.ledger.cells(with_cell=True)
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

    def test_paths_with_a_common_prefix_are_unmarked(self) -> None:
        names = ("recall", "recall_a", "recall-b", "recall0", "rec")
        cells = [sample_cell(benchmark=name) for name in names]
        repeats = [sample_cell(benchmark="many", repeats=True, repeat=r) for r in range(3)]
        self.enroll(*cells, *repeats)
        expected = [cell.path(marked=False) for cell in (*cells, *repeats)]
        assert [record.path for record in self.ledger.cells()] == expected

    def test_a_cell_with_no_free_path_is_refused_and_nothing_enrolled(self) -> None:
        second = sample_cell(version="2")
        squatter = sample_cell(benchmark=f"benchmark-0@{second.fingerprint[:8]}")
        self.enroll(squatter, sample_cell(version="1"))
        with pytest.raises(LedgerError, match="belongs to another cell"):
            self.ledger.enroll([sample_cell(5), second])
        assert len(list(self.ledger.cells())) == 2
        self.enroll(sample_cell(5))
        assert self.record_of(sample_cell(5).fingerprint).path == sample_cell(5).path(marked=False)

    def test_a_cell_with_existing_results_is_enrolled_with_their_path(self) -> None:
        first, second = sample_cell(version="1"), sample_cell(version="2")
        marked = {second.fingerprint: second.path(marked=True)}
        assert self.ledger.enroll([second], paths=marked) == 1
        self.enroll(first)
        paths = [record.path for record in self.ledger.cells()]
        assert paths == [second.path(marked=True), first.path(marked=False)]

    def test_a_requested_path_of_a_known_cell_changes_nothing(self) -> None:
        cell = sample_cell()
        self.enroll(cell)
        assert self.ledger.enroll([cell], paths={cell.fingerprint: cell.path(marked=True)}) == 0
        assert self.only_record().path == cell.path(marked=False)

    @pytest.mark.parametrize("path", ["tiny/dense/benchmark-0", "tiny/dense/benchmark-0/r1"])
    def test_a_requested_path_in_use_refuses_the_enrolment(self, path: str) -> None:
        self.enroll(sample_cell(0))
        with pytest.raises(LedgerError, match=f"{path} belongs to another cell"):
            self.ledger.enroll(
                [sample_cell(1), sample_cell(2)], paths={sample_cell(2).fingerprint: path}
            )
        assert len(list(self.ledger.cells())) == 1

    def test_a_path_is_kept_whatever_is_enrolled_later(self) -> None:
        second = sample_cell(version="2")
        self.enroll(sample_cell(version="1"), second)
        self.ledger.enroll([second])
        assert self.record_of(second.fingerprint).path == second.path(marked=True)
        claims = {c.lease.fingerprint: c.path for c in self.claims(2)}
        assert claims[second.fingerprint] == second.path(marked=True)
