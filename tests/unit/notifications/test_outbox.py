"""Several workers that share the messages of a campaign in its ledger."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.notification import NotificationSettings
from benchfleet.domain.phase import GateDecision
from benchfleet.domain.slots import BEGAN
from benchfleet.errors import LedgerAway
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.notifications.messages import Message, campaign_done
from benchfleet.notifications.outbox import CLAIM_TIMEOUT_S, Outbox
from benchfleet.testing.sample_cells import sample_cell

SETTINGS = NotificationSettings(to=("env:ADDRESS",), every=600.0)
GONE = Message(kind="host_lost", text="Host lab1: gone")


class Clock:
    """Moves only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Fleet:
    """Workers of one campaign."""

    def __init__(self, settings: NotificationSettings = SETTINGS) -> None:
        self.clock = Clock()
        self.ledger = MemoryLedger(self.clock)
        self._settings = settings

    def worker(self, name: str) -> Outbox:
        outbox = Outbox(self.ledger, name, self._settings, self.clock)
        outbox.read()
        return outbox


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_of_two_workers_one_sends_a_message(fleet: Fleet) -> None:
    first, second = fleet.worker("first"), fleet.worker("second")
    first.add(GONE)
    assert texts(second.claim()) == []  # it has not read it yet
    second.read()
    assert texts(second.claim()) == [GONE.text]
    assert texts(first.claim(ends=True)) == []
    second.sent()
    fleet.clock.now += CLAIM_TIMEOUT_S
    first.read()
    assert texts(first.claim(ends=True)) == []


def test_workers_that_claim_at_the_same_time_get_different_messages(fleet: Fleet) -> None:
    first, second = fleet.worker("first"), fleet.worker("second")
    first.add(GONE)
    second.read()
    assert texts(first.claim()) == [GONE.text]
    assert texts(second.claim()) == []  # the first was quicker, and the second learns it here


def test_what_several_workers_see_is_recorded_once(fleet: Fleet) -> None:
    first, second = fleet.worker("first"), fleet.worker("second")
    spent = Message(kind="budget_spent", text="spent", key="20 USD")
    first.add(spent)
    second.add(spent)
    assert texts(second.claim()) == ["spent"]


def test_a_campaign_is_done_again_only_if_cells_ended_since(fleet: Fleet) -> None:
    first, second = fleet.worker("first"), fleet.worker("second")
    fleet.ledger.enroll([sample_cell(0)])
    for count in (1, 2):
        (claim,) = fleet.ledger.claim(RunnerId("runner"), [sample_cell(0).fingerprint])
        fleet.ledger.finish(claim.lease, Outcome(state="failed"))
        first.add(campaign_done({"failed": 1}))
        second.add(campaign_done({"failed": 1}))
        assert len(first.claim(ends=True)) == 1, count
        first.sent()
        retry = Event(kind="retry_asked", fingerprint=sample_cell(0).fingerprint)
        fleet.ledger.record(retry)


def test_another_worker_sends_what_a_killed_one_claimed(fleet: Fleet) -> None:
    killed, other = fleet.worker("killed"), fleet.worker("other")
    killed.add(GONE)
    assert killed.claim()
    other.add(Message(kind="host_lost", text="Host lab2: gone"))
    assert other.wait() == CLAIM_TIMEOUT_S
    fleet.clock.now += CLAIM_TIMEOUT_S
    expected = ["Host lab1: gone (perhaps sent before)", "Host lab2: gone"]
    assert texts(other.claim()) == expected


def test_another_worker_sends_at_once_what_is_given_back(fleet: Fleet) -> None:
    unable, other = fleet.worker("unable"), fleet.worker("other")
    unable.add(GONE)
    assert unable.claim()
    unable.give_back()
    other.read()
    assert texts(other.claim()) == [GONE.text]


def test_what_was_perhaps_sent_stays_marked_until_a_worker_sends_it(fleet: Fleet) -> None:
    unsure, other = fleet.worker("unsure"), fleet.worker("other")
    unsure.add(GONE)
    assert unsure.claim()
    unsure.give_back(perhaps_sent=True)
    other.add(Message(kind="host_lost", text="Host lab2: gone"))
    expected = ["Host lab1: gone (perhaps sent before)", "Host lab2: gone"]
    assert texts(other.claim()) == expected  # at once
    other.give_back()
    assert texts(fleet.worker("third").claim()) == expected


def test_what_a_killed_worker_claimed_stays_marked_if_the_next_one_cannot_send_it(
    fleet: Fleet,
) -> None:
    killed, other = fleet.worker("killed"), fleet.worker("other")
    killed.add(GONE)
    assert killed.claim()
    other.read()
    fleet.clock.now += CLAIM_TIMEOUT_S
    assert other.claim()
    other.give_back()
    assert texts(fleet.worker("third").claim()) == ["Host lab1: gone (perhaps sent before)"]


def test_the_pause_between_messages_holds_for_all_workers(fleet: Fleet) -> None:
    first, second = fleet.worker("first"), fleet.worker("second")
    first.add(GONE)
    assert first.claim()
    first.sent()
    second.add(Message(kind="host_lost", text="Host lab2: gone"))
    assert second.wait() == SETTINGS.every
    assert second.claim() == ()
    fleet.clock.now += SETTINGS.every
    assert texts(second.claim()) == ["Host lab2: gone"]


def test_the_end_of_a_campaign_waits_for_no_pause(fleet: Fleet) -> None:
    worker = fleet.worker("worker")
    worker.add(GONE)
    assert worker.claim()
    worker.sent()
    worker.add(campaign_done({"success": 1}))
    assert texts(worker.claim()) == ["The campaign is done: 1 cell, 1 success"]


def test_decisions_on_gates_are_messages_of_the_ledger(fleet: Fleet) -> None:
    worker = fleet.worker("worker")
    for state in ("opened", "closed"):
        fleet.ledger.record(GateDecision(phase="first", state=state).event())
    worker.read()
    messages = worker.claim()
    assert [message.kind for message in messages] == ["phase_done", "gate_failed"]
    assert texts(messages)[0] == "Phase first: gate opened: every cell has ended"


def test_a_worker_is_lost_once_however_many_leases_it_had(fleet: Fleet) -> None:
    worker = fleet.worker("worker")
    cells = [sample_cell(number) for number in range(2)]
    fleet.ledger.enroll(cells)
    runner = RunnerId("0123456789abcdef")
    fleet.ledger.record(Event(kind=BEGAN, data={"runner": runner, "host": "lab7"}))
    fleet.ledger.claim(runner, [cell.fingerprint for cell in cells], 2)
    fleet.clock.now += 1000
    assert len(fleet.ledger.reap()) == 2
    worker.read()
    expected = ["The worker on lab7 (01234567) is lost: its leases expired"]
    assert texts(worker.claim()) == expected


def test_what_was_before_the_first_worker_is_no_news(fleet: Fleet) -> None:
    fleet.ledger.record(GateDecision(phase="first", state="opened").event())
    assert fleet.worker("first").claim(ends=True) == ()
    fleet.ledger.record(GateDecision(phase="second", state="opened").event())
    assert len(fleet.worker("second").claim(ends=True)) == 1  # between two runs


def test_only_what_the_campaign_asks_for_is_sent() -> None:
    fleet = Fleet(NotificationSettings(to=SETTINGS.to, on=("campaign_done",)))
    worker = fleet.worker("worker")
    fleet.ledger.record(GateDecision(phase="first", state="opened").event())
    worker.read()
    assert worker.claim(ends=True) == ()


def test_a_ledger_that_was_away_learns_later_that_a_message_was_sent(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, other = fleet.worker("worker"), fleet.worker("other")
    worker.add(GONE)
    assert worker.claim()
    with monkeypatch.context() as patch:

        def away(event: Event, *, after: int | None = None) -> int:
            raise LedgerAway("no route")

        patch.setattr(fleet.ledger, "record", away)
        with pytest.raises(LedgerAway):
            worker.sent()
    worker.confirm()
    fleet.clock.now += CLAIM_TIMEOUT_S
    other.read()
    assert other.claim(ends=True) == ()
