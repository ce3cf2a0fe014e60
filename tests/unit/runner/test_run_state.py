"""The budget of a run: when its observer hears of it."""

from __future__ import annotations

import threading

from benchfleet.domain.budget import Budget
from benchfleet.domain.usage import Usage
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.disk_guard import DiskSpace
from benchfleet.runner.events import EventQueue
from benchfleet.runner.progress import Notice
from benchfleet.runner.run_state import RunState


def run_state(budget: Budget, notices: list[Notice]) -> RunState:
    return RunState(
        ledger=MemoryLedger(),
        inbox=EventQueue(),
        cells=(),
        observer=lambda notice, progress: notices.append(notice),
        disk_space=lambda: DiskSpace(free=10**12, total=10**12),
        stop_waiting=threading.Event(),
        budget=budget,
    )


def test_a_budget_that_is_nearly_spent_and_one_that_is_spent_are_reported_once_each() -> None:
    notices: list[Notice] = []
    state = run_state(Budget(amount=10, currency="USD"), notices)
    for cost, kinds in (
        (7.9, []),
        (0.3, ["budget_used"]),
        (0.3, ["budget_used"]),
        (2.0, ["budget_used", "budget_spent"]),
        (2.0, ["budget_used", "budget_spent"]),
    ):
        state.spend(Usage(seconds=1, cost=cost, currency="USD"))
        assert [notice.kind for notice in notices] == kinds
    assert notices[0].message.startswith("82 % of the budget of 10 USD is spent;")
    assert notices[1].message == state.broken != ""
    assert {notice.data["budget"] for notice in notices} == {"10 USD"}


def test_a_budget_that_is_spent_at_once_is_not_reported_as_nearly_spent() -> None:
    notices: list[Notice] = []
    run_state(Budget(amount=0, currency="USD"), notices).check_budget()
    assert [notice.kind for notice in notices] == ["budget_spent"]
