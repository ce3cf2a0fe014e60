"""What reading promises: records and events, and what a person asks by them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from benchfleet.domain.attempt import Claim, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.part import Split
from benchfleet.domain.state import FINAL_STATES, FinalState
from benchfleet.errors import ClaimLost
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell

from .base import FAILED, LEASE, ME, OTHER, RETRIED, SUCCESS, LedgerFixture


class Reading(LedgerFixture):
    """What reading promises: records and events, and what a person asks by them."""

    def test_cells_are_chosen_by_state_and_fingerprint(self) -> None:
        cells = [sample_cell(n) for n in range(4)]
        self.enroll(*cells)
        for claim in self.claims(2):
            if claim.lease.fingerprint == cells[0].fingerprint:
                self.ledger.finish(claim.lease, SUCCESS)

        def selected(**chosen: Sequence[str]) -> list[int]:
            records = self.ledger.cells(**chosen)  # type: ignore[arg-type]
            numbers = {cell.fingerprint: number for number, cell in enumerate(cells)}
            return [numbers[record.fingerprint] for record in records]

        assert selected() == [0, 1, 2, 3]
        assert selected(states=["pending"]) == [2, 3]
        assert selected(states=["success", "running"]) == [0, 1]
        assert selected(states=[]) == []
        fingerprints = [cells[3].fingerprint, cells[0].fingerprint, "unknown"]
        assert selected(fingerprints=fingerprints) == [0, 3]
        assert selected(fingerprints=fingerprints, states=["pending"]) == [3]
        assert selected(fingerprints=[]) == []

    def test_the_cell_comes_along_only_when_asked_for(self) -> None:
        cell = sample_cell(gpus=2, tries=5)
        self.enroll(cell)
        assert self.only_record().cell is None
        (record,) = self.ledger.cells(with_cell=True)
        assert record.cell is not None
        assert record.cell.to_dict() == cell.to_dict()

    def test_parts_of_a_split_cell_are_cells_that_are_seen_by_name_alone(self) -> None:
        whole, other = sample_cell(0), sample_cell(1)
        self.enroll(whole, other)
        parts = Split.evenly(str(whole.fingerprint), 1, 1, 3).cells(whole)
        self.enroll(*parts)
        assert [record.id for record in self.ledger.cells()] == [whole.id, other.id]
        names = [str(part.fingerprint) for part in parts]
        assert [record.id for record in self.ledger.cells(fingerprints=names)] == [
            part.id for part in parts
        ]
        claims = self.ledger.claim(RunnerId("one"), names)
        (record,) = self.ledger.cells(fingerprints=names, states=["running"], with_cell=True)
        assert record.cell is not None
        assert (record.cell.part, claims[0].cell.part) == (parts[0].part, parts[0].part)

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
            (theirs,) = claim_any(other, OTHER, 5)
            assert theirs.lease.fingerprint == sample_cell(1).fingerprint
            other.finish(mine.lease, SUCCESS)
            self.ledger.release([theirs.lease], "no room")
            assert list(other.renew([mine.lease, theirs.lease])) == []
            assert list(other.cells()) == list(self.ledger.cells())
            assert list(other.events()) == list(self.ledger.events())
            chosen = [sample_cell(1).fingerprint]
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

        def without_lease(event: Event) -> dict[str, object]:
            return {key: value for key, value in event.data.items() if key != "lease"}

        events = self.ledger.events()
        assert self.ledger.last_event() == events[-1].seq
        start = self.clock.now - LEASE - 1
        assert [(e.kind, e.fingerprint, e.at - start, without_lease(e)) for e in events] == [
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
        first, second = self.claims(2)
        self.ledger.finish(second.lease, SUCCESS)
        name = second.lease.fingerprint
        selected = self.ledger.events(fingerprints=[name])
        assert [event.kind for event in selected] == ["claimed", "finished"]
        assert self.ledger.events(since=selected[0].seq, fingerprints=[name]) == selected[1:]
        assert len(self.ledger.events(fingerprints=[name, first.lease.fingerprint])) == 3
        assert list(self.ledger.events(fingerprints=[])) == []
        assert [event.kind for event in self.ledger.events(kinds=["claimed"])] == ["claimed"] * 2
        assert (
            list(self.ledger.events(since=selected[-1].seq, fingerprints=[name], kinds=["claimed"]))
            == []
        )
        assert list(self.ledger.events(kinds=[])) == []

    def test_the_events_about_no_cell_can_be_asked_for(self) -> None:
        self.enroll(sample_cell(0))
        [claim] = self.claims(1)
        seq = self.ledger.record(Event(kind="slots_asked", data={"runner": ME}))
        selected = self.ledger.events(fingerprints=[""], kinds=["slots_asked", "claimed"])
        assert [event.kind for event in selected] == ["slots_asked"]
        assert list(self.ledger.events(since=seq, fingerprints=[""])) == []
        both = self.ledger.events(since=seq - 2, fingerprints=["", claim.lease.fingerprint])
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
