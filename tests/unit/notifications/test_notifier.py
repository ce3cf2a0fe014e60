"""The thread that sends messages: when it sends, and what becomes of services that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.notification import NotificationSettings
from benchfleet.domain.phase import GateDecision
from benchfleet.domain.race import RACE, RaceStop
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.notifications.notifier import Notifier
from benchfleet.notifications.send import Delivery
from benchfleet.providers.secret import Secret
from benchfleet.runner.progress import Notice, Progress
from benchfleet.testing.sample_cells import sample_cell

LOST = Notice(kind="host_lost", message="gone", data={"host": "lab1"})


class Service:
    """Takes messages as a service does; it hangs while `free` is not set."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.answer = Delivery()
        self.asked, self.free = threading.Event(), threading.Event()
        self.free.set()
        self.changed = threading.Condition()

    def __call__(
        self,
        addresses: Sequence[str],
        title: str,
        body: str,
        *,
        started: Callable[[Callable[[], None]], None],
    ) -> Delivery:
        if not title:
            return Delivery(unknown=self.answer.unknown)
        killed = threading.Event()

        def kill() -> None:
            killed.set()
            self.free.set()

        started(kill)
        self.asked.set()
        assert self.free.wait(60)
        if killed.is_set():
            return Delivery(failed=len(addresses), reasons=["no answer"], unanswered=True)
        with self.changed:
            self.bodies.append(body)
            self.changed.notify_all()
        return self.answer

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.bodies) >= count, 60)


class Campaign:
    """A campaign of some cells, of which some have ended."""

    def __init__(self, cells: int = 1) -> None:
        self.ledger = MemoryLedger()
        self.names = [sample_cell(number).fingerprint for number in range(cells)]
        self.ledger.enroll([sample_cell(number) for number in range(cells)])

    def end(self, number: int) -> None:
        (claim,) = self.ledger.claim(RunnerId("runner"), [self.names[number]])
        self.ledger.finish(claim.lease, Outcome(state="failed"))

    def notifier(
        self,
        service: Service,
        warn: Callable[[str], None] = lambda message: None,
        *,
        addresses: int = 1,
        is_worker: bool = False,
    ) -> Notifier:
        return Notifier(
            NotificationSettings(to=("env:ADDRESS",)),
            "study",
            [Secret("json://secret")] * addresses,
            open_ledger=lambda: self.ledger,
            cells=lambda: None,
            is_worker=is_worker,
            warn=warn,
            send=service,
        )


def progress_of(total: int, **states: int) -> Progress:
    return Progress(total=total, states=states)


def test_the_first_message_goes_at_once_and_the_next_ones_together_at_the_end() -> None:
    service = Service()
    notifier = Campaign().notifier(service)
    notifier(LOST, Progress())
    service.wait_for(1)
    notifier(LOST, Progress())
    notifier(LOST, Progress())
    notifier.close(60)
    assert service.bodies == ["Host lab1: gone", "Host lab1: gone (2 times)"]


def test_the_end_of_a_campaign_waits_for_nothing() -> None:
    campaign, service = Campaign(), Service()
    notifier = campaign.notifier(service)
    notifier(LOST, Progress())
    service.wait_for(1)
    campaign.end(0)
    notifier(Notice(kind="cell_failed"), progress_of(1, failed=1))
    service.wait_for(2)
    notifier(Notice(kind="run_ended"), progress_of(1, failed=1))
    notifier.close(60)
    assert service.bodies[1:] == ["The campaign is done: 1 cell, 1 failed"]


def test_a_run_that_ends_before_all_cells_says_so_and_a_worker_does_not() -> None:
    for is_worker in (False, True):
        campaign, service = Campaign(2), Service()
        notifier = campaign.notifier(service, is_worker=is_worker)
        campaign.end(0)
        notifier(Notice(kind="cell_failed"), progress_of(1, failed=1))
        notifier(Notice(kind="run_ended"), progress_of(1, failed=1))
        notifier.close(60)
        text = "The run ended before all cells: 2 cells, 1 pending, 1 failed"
        assert service.bodies == ([] if is_worker else [text])


def test_a_run_that_was_interrupted_or_ran_nothing_reports_no_end() -> None:
    campaign, service = Campaign(), Service()
    campaign.end(0)
    for kinds in (("interrupted", "cell_failed", "run_ended"), ("run_ended",)):
        notifier = campaign.notifier(service)
        for kind in kinds:
            notifier(Notice(kind=kind), progress_of(1, failed=1))
        notifier.close(60)
    assert service.bodies == []


def test_of_two_workers_one_reports_the_end() -> None:
    campaign, service = Campaign(2), Service()
    workers = [campaign.notifier(service, is_worker=True) for _ in range(2)]
    for number in range(2):
        campaign.end(number)
    for worker in workers:
        worker(Notice(kind="cell_failed"), progress_of(2, failed=2))
    for worker in workers:
        worker.close(60)
    assert service.bodies == ["The campaign is done: 2 cells, 2 failed"]


def test_the_end_is_reported_once_the_ledger_knows_what_others_did_until_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    campaign, service = Campaign(2), Service()
    campaign.end(0)
    ages = [9.0]

    def read_age() -> float:
        """Old at first; then another worker's end is known."""
        if (age := ages.pop() if ages else 0.0) == 0.0 and not done:
            done.append(True)
            campaign.end(1)
        return age

    done: list[bool] = []
    monkeypatch.setattr(campaign.ledger, "read_age", read_age)
    run = campaign.notifier(service)
    run(Notice(kind="cell_failed"), progress_of(2, failed=1, running=1))
    run(Notice(kind="run_ended"), progress_of(2, failed=2))
    run.close(60)
    assert service.bodies == ["The campaign is done: 2 cells, 2 failed"]


def test_what_a_race_stopped_is_called_skipped() -> None:
    campaign, service = Campaign(2), Service()
    notifier = campaign.notifier(service)
    campaign.end(0)
    stop = RaceStop(
        model="m",
        config="bad",
        benchmark="b",
        leader="good",
        samples=40,
        difference=-0.5,
        interval=(-0.9, -0.1),
        confidence=0.95,
        cells=(str(campaign.names[1]),),
    )
    campaign.ledger.record(stop.event())
    asked = Event(kind="cancel_asked", fingerprint=campaign.names[1], data={"by": RACE})
    campaign.ledger.record(asked)
    notifier(Notice(kind="cell_failed"), progress_of(2, failed=1, skipped=1))
    notifier(Notice(kind="run_ended"), progress_of(2, failed=1, skipped=1))
    notifier.close(60)
    assert service.bodies == ["The campaign is done: 2 cells, 1 failed, 1 skipped"]


def test_failures_of_other_workers_count_too() -> None:
    campaign, service = Campaign(3), Service()
    worker = campaign.notifier(service, is_worker=True)
    for number in range(3):
        campaign.end(number)
    worker(Notice(kind="cell_failed"), progress_of(1, failed=1))  # the others are not known here
    worker.close(60)
    (body,) = service.bodies
    assert body.splitlines() == [
        "100% of the ended cells failed: 3 cells, 3 failed",
        "The campaign is done: 3 cells, 3 failed",
    ]


def test_a_worker_without_addresses_leaves_its_messages_to_others() -> None:
    campaign, service = Campaign(), Service()
    mute = campaign.notifier(service, addresses=0)
    mute(LOST, Progress())
    mute.close(60)
    assert service.bodies == []
    campaign.notifier(service).close(60)
    assert service.bodies == ["Host lab1: gone"]


def test_a_service_that_hangs_holds_up_nobody_and_the_next_worker_sends() -> None:
    campaign, service, warnings = Campaign(), Service(), list[str]()
    service.free.clear()
    notifier = campaign.notifier(service, warnings.append)
    notifier(LOST, Progress())
    assert service.asked.wait(60)
    for _ in range(1000):
        notifier(LOST, Progress())
    notifier.close(0.01)
    assert service.bodies == []
    assert warnings == ["a notification did not reach 1 of 1 addresses: no answer"]
    campaign.notifier(service).close(60)
    (body,) = service.bodies
    assert body.splitlines() == [
        "Host lab1: gone (perhaps sent before)",
        "Host lab1: gone (1000 times)",
    ]


def test_what_could_not_be_sent_is_a_warning_without_the_address() -> None:
    service, warnings = Service(), list[str]()
    service.answer = Delivery(unknown=1, failed=1)
    notifier = Campaign().notifier(service, warnings.append, addresses=2)
    notifier(LOST, Progress())
    notifier.close(60)
    assert len([one for one in warnings if "unknown to Apprise" in one]) == 1
    assert any("did not reach 1 of 2 addresses" in one for one in warnings)
    assert "secret" not in "".join(warnings)


def test_what_reached_nobody_is_sent_later() -> None:
    campaign, service = Campaign(), Service()
    service.answer = Delivery(failed=1)
    notifier = campaign.notifier(service)
    campaign.ledger.record(GateDecision(phase="first", state="opened").event())
    notifier(LOST, Progress())
    service.wait_for(1)
    notifier.close(60)
    service.answer = Delivery()
    campaign.notifier(service).close(60)
    assert service.bodies[-1].endswith("Host lab1: gone")
    count = len(service.bodies)
    campaign.notifier(service).close(60)
    assert len(service.bodies) == count
