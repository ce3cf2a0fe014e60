"""The invariants that torment checks are found broken where they are."""

from __future__ import annotations

from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.state import STATES
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.testing import FakeClock, sample_cell
from benchfleet.testing.claims import claim_any
from simulation.invariants import differences, wrong_counts, wrong_history

SUCCESS = {"state": "success", "digest": "abc"}


def history(*events: tuple[str, int] | tuple[str, int, dict[str, Any]]) -> list[Event]:
    """Events of one cell: kind, token, and what else they tell."""
    return [
        Event(kind=kind, fingerprint="cell", data={"token": token, **dict(*more)}, seq=seq, at=seq)
        for seq, (kind, token, *more) in enumerate(events, start=1)
    ]


def test_what_a_ledger_records_is_right() -> None:
    clock = FakeClock(0.0)
    ledger = MemoryLedger(clock=clock, lease=10.0)
    cell = sample_cell()
    ledger.enroll([cell])
    (first,) = claim_any(ledger, RunnerId("one"))
    clock.advance(11)
    ledger.reap()
    (second,) = claim_any(ledger, RunnerId("two"))
    ledger.release([second.lease], "why not")
    (third,) = claim_any(ledger, RunnerId("two"))
    ledger.finish(third.lease, Outcome(state="success", digest="abc"))
    ledger.record(Event(kind="retry_asked", fingerprint=cell.fingerprint))
    (fourth,) = claim_any(ledger, RunnerId("one"))
    ledger.finish(fourth.lease, Outcome(state="success", digest="def"))
    key = (cell.fingerprint, first.lease.token)
    assert wrong_history(ledger.events(), {key: 10.0}) == []


@pytest.mark.parametrize(
    ("events", "output"),
    [
        ([("claimed", 1), ("claimed", 2)], "claimed while token 1 held it"),
        ([("claimed", 2), ("released", 2), ("claimed", 2)], "is not above 2"),
        ([("released", 1)], "released and not held"),
        (
            [("claimed", 1), ("reaped", 1), ("claimed", 2), ("finished", 1, {"outcome": SUCCESS})],
            "finished though a newer claim was there",
        ),
        (
            [("claimed", 1), ("finished", 1, {"outcome": SUCCESS}), ("claimed", 2)],
            "claimed after it had succeeded",
        ),
        (
            [("claimed", 1), ("finished", 1, {"outcome": SUCCESS})] * 2,
            "succeeded a second time",
        ),
    ],
)
def test_a_history_that_should_not_be_is_reported(events: list[Any], output: str) -> None:
    assert output in "\n".join(wrong_history(history(*events), {}))


def test_a_lease_that_was_reaped_before_its_end_is_reported() -> None:
    events = history(("claimed", 1), ("reaped", 1))
    assert wrong_history(events, {("cell", 1): 2.0}) == []
    (wrong,) = wrong_history(events, {("cell", 1): 2.5})
    assert "reaped before its lease ran out" in wrong


def test_a_late_finish_of_what_nobody_else_took_is_right() -> None:
    events = history(("claimed", 1), ("reaped", 1), ("finished", 1, {"outcome": SUCCESS}))
    assert wrong_history(events, {}) == []


def test_counts_that_do_not_add_up_are_reported() -> None:
    none: dict[str, int] = dict.fromkeys(STATES, 0)
    status = {**none, "success": 2, "total": 2}
    assert wrong_counts(status, {"counts": status}, "study: 2 cells: 2 success") == []
    wrong = wrong_counts({**status, "total": 3}, {"counts": none}, "2 cells: 1 success")
    assert len(wrong) == 3


def test_only_what_two_undisturbed_runs_agree_on_is_compared() -> None:
    one = {"answer": "yes", "pid": 1}
    other = {"answer": "yes", "pid": 2}
    assert differences({"answer": "yes", "pid": 3}, one, other) == []
    assert differences({"answer": "no", "pid": 3}, one, other) == [
        "answer is 'no', undisturbed 'yes'"
    ]
    assert differences({"answer": "yes", "more": 1}, one, other) == ["more is 1, undisturbed None"]
    assert differences({"pid": 1}, one, other) == ["answer is 'not there', undisturbed 'yes'"]
