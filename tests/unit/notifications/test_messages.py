"""Which notices become messages, and what they say."""

from __future__ import annotations

from typing import Any

import pytest

from benchfleet.domain.notification import NotificationSettings
from benchfleet.notifications.messages import Message, MessageWriter, campaign_done, run_ended
from benchfleet.notifications.notifier import body_of
from benchfleet.runner.progress import Notice, NoticeKind, Progress

SETTINGS = NotificationSettings(to=("env:ADDRESS",))


def texts(writer: MessageWriter, kind: NoticeKind, progress: Progress, **data: Any) -> list[str]:
    notice = Notice(kind=kind, message="the reason", data=data)
    return [f"{one.kind}: {one.text}" for one in writer.messages(notice, progress)]


def progress_of(total: int, **states: int) -> Progress:
    return Progress(total=total, states=states)


def test_the_end_of_a_campaign_and_of_a_run_are_different_messages() -> None:
    done = campaign_done({"success": 1, "failed": 1, "pending": 0})
    assert done.text == "The campaign is done: 2 cells, 1 success, 1 failed"
    ended = run_ended("run", {"success": 1, "pending": 1})
    assert ended.text == "The run ended before all cells: 2 cells, 1 success, 1 pending"
    assert (done.final, ended.final) == (True, True)
    assert done.key != ended.key != run_ended("another", {}).key


def test_a_share_of_failures_is_reported_once() -> None:
    writer = MessageWriter(SETTINGS)
    assert texts(writer, "cell_failed", progress_of(40, failed=2, pending=38)) == []
    assert texts(writer, "cell_failed", progress_of(40, failed=3, success=27, pending=10)) == []
    assert texts(writer, "cell_failed", progress_of(40, failed=4, success=27, pending=9)) == [
        "failures: 13% of the ended cells failed: 40 cells, 4 failed, 27 success, 9 pending"
    ]
    assert texts(writer, "cell_failed", progress_of(40, failed=9, pending=31)) == []


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("host_lost", {"host": "lab2", "hopeless": False}, "host_lost: Host lab2: the reason"),
        ("budget_used", {"share": 0.8, "budget": "20 USD"}, "budget: the reason"),
        ("budget_spent", {"budget": "20 USD"}, "budget_spent: the reason"),
    ],
)
def test_each_kind_is_sent_if_it_is_asked_for(
    kind: NoticeKind, data: dict[str, Any], expected: str
) -> None:
    progress = progress_of(2, success=1, pending=1)
    assert texts(MessageWriter(SETTINGS), kind, progress, **data) == [expected]
    others = NotificationSettings(to=SETTINGS.to, on=("campaign_done",))
    assert texts(MessageWriter(others), kind, progress, **data) == []


def test_equal_messages_are_counted_and_many_are_cut() -> None:
    messages = [Message(kind="host_lost", text=f"Host h{n}") for n in (*range(25), 0)]
    lines = body_of(messages).splitlines()
    assert lines[0] == "Host h0 (2 times)"
    assert lines[-1] == "and 5 more"
    assert len(lines) == 21


def test_a_budget_has_one_key_for_each_amount() -> None:
    writer, progress = MessageWriter(SETTINGS), progress_of(1, success=1)
    keys = [
        message.key
        for kind in ("budget_used", "budget_spent")
        for budget in ("20 USD", "20 USD", "30 USD")
        for message in writer.messages(Notice(kind=kind, data={"budget": budget}), progress)
    ]
    assert len(keys) == 6
    assert len(set(keys)) == 4
