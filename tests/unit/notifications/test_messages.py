"""Which notices become messages, and how messages are gathered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from benchfleet.domain.notification import NotificationSettings
from benchfleet.notifications.messages import Message, MessageWriter
from benchfleet.notifications.notifier import Notifier, body_of
from benchfleet.notifications.send import Delivery
from benchfleet.providers.secret import Secret
from benchfleet.runner.progress import Notice, NoticeKind, Progress

SETTINGS = NotificationSettings(to=("env:ADDRESS",))


def texts(writer: MessageWriter, kind: NoticeKind, progress: Progress, **data: Any) -> list[str]:
    notice = Notice(kind=kind, message="the reason", data=data)
    return [f"{one.kind}: {one.text}" for one in writer.messages(notice, progress)]


def progress_of(total: int, **states: int) -> Progress:
    return Progress(total=total, states=states)


def test_a_campaign_that_ended_is_done_or_stopped() -> None:
    writer = MessageWriter(SETTINGS)
    assert texts(writer, "run_ended", progress_of(2, success=2)) == []  # nothing ran
    texts(writer, "cell_done", progress_of(2, success=1, pending=1))
    assert texts(writer, "run_ended", progress_of(2, success=1, failed=1)) == [
        "campaign_done: The campaign is done: 2 cells, 1 success, 1 failed"
    ]
    assert texts(writer, "run_ended", progress_of(2, success=1, pending=1)) == [
        "campaign_done: The run ended before all cells: 2 cells, 1 success, 1 pending"
    ]
    texts(writer, "interrupted", progress_of(2, success=1, pending=1))
    assert texts(writer, "run_ended", progress_of(2, success=1, pending=1)) == []


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
        ("gate_decided", {"opened": True}, "phase_done: Phase the reason"),
        ("gate_decided", {"opened": False}, "gate_failed: Phase the reason"),
        ("host_lost", {"host": "lab2", "hopeless": False}, "host_lost: Host lab2: the reason"),
        ("budget_used", {"share": 0.8}, "budget: the reason"),
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


class Outbox:
    """Takes messages as a service does; `hold` makes it hang."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.answer = Delivery()
        self.hold = threading.Event()
        self.hold.set()
        self.changed = threading.Condition()

    def __call__(
        self, addresses: Sequence[str], title: str, body: str, *, timeout: float = 0
    ) -> Delivery:
        assert self.hold.wait(60)
        with self.changed:
            self.bodies += [body] if title else []
            self.changed.notify_all()
        return self.answer

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.bodies) >= count, 60)


def notifier_of(
    outbox: Outbox, warn: Callable[[str], None] = lambda message: None, every: float = 600.0
) -> Notifier:
    settings = NotificationSettings(to=("env:ADDRESS",), every=every)
    return Notifier(settings, "study", [Secret("json://secret")], warn=warn, send=outbox)


LOST = Notice(kind="host_lost", message="gone", data={"host": "lab1"})


def test_the_first_message_goes_at_once_and_the_next_ones_together_at_the_end() -> None:
    outbox = Outbox()
    notifier = notifier_of(outbox)
    notifier(LOST, Progress())
    outbox.wait_for(1)
    notifier(LOST, Progress())
    notifier(LOST, Progress())
    notifier.close()
    assert outbox.bodies == ["Host lab1: gone", "Host lab1: gone (2 times)"]


def test_the_end_of_a_campaign_waits_for_nothing() -> None:
    outbox = Outbox()
    notifier = notifier_of(outbox)
    notifier(LOST, Progress())
    outbox.wait_for(1)
    notifier(Notice(kind="cell_done"), progress_of(1, success=1))
    notifier(Notice(kind="run_ended"), progress_of(1, success=1))
    outbox.wait_for(2)
    assert outbox.bodies[1] == "The campaign is done: 1 cell, 1 success"
    notifier.close()


def test_a_service_that_hangs_holds_up_nobody() -> None:
    outbox = Outbox()
    outbox.hold.clear()
    notifier = notifier_of(outbox)
    for _ in range(1000):
        notifier(LOST, Progress())
    notifier.close(timeout=0.01)
    assert outbox.bodies == []
    outbox.hold.set()


def test_what_could_not_be_sent_is_a_warning_without_the_address() -> None:
    outbox, warnings = Outbox(), list[str]()
    outbox.answer = Delivery(unknown=1, failed=1)
    notifier = notifier_of(outbox, warnings.append)
    notifier(LOST, Progress())
    notifier.close(60)
    assert len([one for one in warnings if "unknown to Apprise" in one]) == 1
    assert any("did not reach 1 of 1 addresses" in one for one in warnings)
    assert "secret" not in "".join(warnings)
