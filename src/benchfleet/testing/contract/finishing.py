"""What a finish promises: once, fenced, repeatable, with retries and tries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.domain.attempt import Advice, Outcome
from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.state import FINAL_STATES, FinalState
from benchfleet.errors import ClaimLost
from benchfleet.testing.sample_cells import sample_cell

from .base import FAILED, LEASE, OOM, OTHER, RETRIED, SUCCESS, LedgerFixture


class Finishing(LedgerFixture):
    """What a finish promises: once, fenced, repeatable, with retries and tries."""

    @pytest.mark.parametrize("state", FINAL_STATES)
    def test_finishing_gives_the_final_state_and_keeps_the_outcome(self, state: FinalState) -> None:
        claim = self.running_cell()
        outcome = replace(SUCCESS, state=state, failure=OOM)
        self.ledger.finish(claim.lease, outcome)
        record = self.only_record()
        assert (record.state, record.outcome, record.tries) == (state, outcome, 1)
        assert (record.runner, record.expires_in, record.ready_in) == ("", None, 0.0)
        assert self.order_of() == []

    def test_several_that_end_together_end_as_one_by_one(self) -> None:
        self.ledger.enroll([sample_cell(number) for number in range(4)])
        first, again, lost, last = (claim.lease for claim in self.claims(4))
        self.ledger.finish(again, SUCCESS)
        self.ledger.release([lost], "another is to have it")
        unknown = replace(last, fingerprint=Fingerprint("unknown"))
        request = [(first, SUCCESS), (again, SUCCESS), (lost, SUCCESS), (unknown, FAILED)]
        answers = self.ledger.finish_all([*request, (last, RETRIED)])
        assert [isinstance(one, ClaimLost) for one in answers] == [False, False, True, True, False]
        assert [answers[0], answers[1], answers[4]] == [None, None, None]
        states = [record.state for record in self.ledger.cells()]
        assert states == ["success", "success", "pending", "pending"]
        outcomes = [record.outcome for record in self.ledger.cells()]
        assert outcomes == [SUCCESS, SUCCESS, None, RETRIED]
        kinds = [event.kind for event in self.ledger.events() if event.kind == "finished"]
        assert len(kinds) == 3

    def test_of_two_outcomes_in_one_call_the_first_counts(self) -> None:
        lease = self.running_cell().lease
        answers = self.ledger.finish_all([(lease, SUCCESS), (lease, FAILED), (lease, SUCCESS)])
        assert [isinstance(one, ClaimLost) for one in answers] == [False, True, False]
        assert self.only_record().outcome == SUCCESS

    def test_a_finish_asked_again_is_silent_and_changes_nothing(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, SUCCESS)
        before = list(self.ledger.cells()), list(self.ledger.events())
        self.ledger.finish(claim.lease, SUCCESS)
        self.ledger.finish(claim.lease, replace(SUCCESS, host="another"))
        assert (list(self.ledger.cells()), list(self.ledger.events())) == before

    def test_a_repeated_finish_with_a_retry_is_silent_even_when_claimed_again(self) -> None:
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

    def test_a_claim_brings_the_outcome_that_asked_for_it(self) -> None:
        first = self.running_cell()
        assert (first.retry_of, first.advice) == (None, Advice())
        request = replace(
            RETRIED,
            retry_in=0.0,
            advice=Advice(batch_size=4, alone=True, vram=10),
            first=OOM,
            failures={"oom": 2},
        )
        self.ledger.finish(first.lease, request)
        second = self.one_claim()
        assert (second.retry_of, second.advice) == (request, request.advice)
        self.ledger.release([second.lease], "not here")
        third = self.one_claim(OTHER)
        assert third.retry_of == request
        self.clock.advance(LEASE)
        self.ledger.reap()
        assert self.one_claim().retry_of == request

    def test_a_cell_that_is_to_be_tried_again_from_the_beginning_brings_none(self) -> None:
        claim = self.running_cell()
        self.ledger.finish(claim.lease, replace(FAILED, advice=Advice(batch_size=1)))
        self.ledger.record(Event(kind="retry_asked", fingerprint=claim.lease.fingerprint))
        assert self.one_claim().retry_of is None
