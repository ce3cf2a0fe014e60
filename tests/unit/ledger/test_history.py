"""Counts and attempts, as reports read them from any ledger."""

from __future__ import annotations

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.part import SPLIT
from benchfleet.domain.usage import Usage, UsageTotal
from benchfleet.ledger.history import (
    BILLED,
    attempts,
    attempts_by_cell,
    bill,
    bills,
    counts,
)
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.spending import read_bills
from benchfleet.testing import FakeClock, sample_cell
from benchfleet.testing.claims import claim_any

CELL = sample_cell()
SUCCESS = Outcome(state="success", digest="abc", metrics={"overall": 1.0})


class Story:
    """A ledger of one cell, one second after another."""

    def __init__(self) -> None:
        self.clock = FakeClock(0.0)
        self.ledger = MemoryLedger(clock=self.clock, lease=10.0)
        self.ledger.enroll([CELL])

    def claim(self, runner: str) -> Claim:
        self.clock.advance(1)
        (claim,) = claim_any(self.ledger, RunnerId(runner))
        self.clock.advance(1)
        return claim


def test_counts_add_up_and_a_cell_without_a_record_is_pending() -> None:
    ledger = MemoryLedger(clock=FakeClock(), lease=10.0)
    ledger.enroll([sample_cell(number) for number in range(8)])
    claims = claim_any(ledger, RunnerId("me"), 6)
    for claim, state in zip(claims, ("success", "success", "partial", "failed"), strict=False):
        ledger.finish(claim.lease, Outcome(state=state))  # type: ignore[arg-type]
    ledger.finish(claims[4].lease, Outcome(state="skipped"))
    ledger.record(Event(kind="cancel_asked", fingerprint=sample_cell(7).fingerprint))
    assert counts(ledger.cells(), total=9) == {
        "total": 9,
        "pending": 2,
        "running": 1,
        "success": 2,
        "partial": 1,
        "failed": 1,
        "skipped": 1,
        "cancelled": 1,
    }


def test_every_attempt_is_reported_with_how_it_ended() -> None:
    story = Story()
    given_back = story.claim("one")
    story.ledger.release([given_back.lease], "no room")
    story.claim("two")
    story.clock.advance(10)
    story.ledger.reap()
    retried = story.claim("three")
    failed = Outcome(state="failed", retry_in=0.0)
    story.ledger.finish(retried.lease, failed)
    done = story.claim("four")
    story.ledger.finish(done.lease, SUCCESS)
    found = attempts(story.ledger, CELL.fingerprint)
    assert [(a.attempt, a.token, a.runner, a.claimed_at, a.ended_at, a.how) for a in found] == [
        (1, 1, "one", 1, 2, "released"),
        (2, 3, "two", 3, 14, "reaped"),
        (3, 4, "three", 15, 16, "finished"),
        (4, 5, "four", 17, 18, "finished"),
    ]
    assert [attempt.outcome for attempt in found] == [None, None, failed, SUCCESS]


def test_an_attempt_under_way_has_no_end() -> None:
    story = Story()
    story.claim("one")
    (attempt,) = attempts(story.ledger, CELL.fingerprint)
    assert (attempt.ended_at, attempt.how, attempt.outcome) == (None, "", None)


def test_only_an_attempt_under_way_is_cancelled() -> None:
    story = Story()
    claim = story.claim("one")
    story.ledger.release([claim.lease], "no room")
    story.ledger.record(Event(kind="cancel_asked", fingerprint=CELL.fingerprint))
    story.ledger.record(Event(kind="retry_asked", fingerprint=CELL.fingerprint))
    story.claim("two")
    story.ledger.record(Event(kind="cancel_asked", fingerprint=CELL.fingerprint))
    assert [a.how for a in attempts(story.ledger, CELL.fingerprint)] == ["released", "cancelled"]


def test_a_cell_that_was_never_claimed_has_no_attempts() -> None:
    story = Story()
    story.ledger.record(Event(kind="cancel_asked", fingerprint=CELL.fingerprint))
    assert attempts(story.ledger, CELL.fingerprint) == []
    assert attempts_by_cell(story.ledger.events()) == {}


def billed(story: Story) -> dict[str, object]:
    events = story.ledger.events(kinds=BILLED)
    (found,) = bills(events).values()
    assert bill(events, {CELL.fingerprint}) == found
    assert bill(events, {"another"}) == UsageTotal()
    assert read_bills(story.ledger, story.ledger.cells()) == bills(events)
    return found.to_dict()


def test_bills_by_outcomes_are_those_by_events() -> None:
    """Of cells that ended at once, wait, run, were tried twice or were split."""
    ledger = MemoryLedger(clock=FakeClock(), lease=10.0)
    cells = [sample_cell(number) for number in range(6)]
    ledger.enroll(cells)
    once, failed, twice, split, _ = claim_any(ledger, RunnerId("me"), 5)
    used = Usage(seconds=36, gpus=1)
    ledger.finish(once.lease, Outcome(state="success", usage=used))
    ledger.finish(failed.lease, Outcome(state="failed"))
    ledger.finish(twice.lease, Outcome(state="failed", retry_in=0.0, usage=used))
    (again,) = ledger.claim(RunnerId("me"), [twice.lease.fingerprint])
    ledger.finish(again.lease, Outcome(state="success", usage=used))
    name = split.lease.fingerprint
    data = {"token": split.lease.token, "runner": "me", "parts": ["a", "b"]}
    ledger.record(Event(kind=SPLIT, fingerprint=name, data=data))
    for part in ("a", "b"):
        parts_use = {"token": 1, "usage": {"seconds": 5.0}}
        ledger.record(Event(kind="used", fingerprint=part, data=parts_use))
    ledger.finish(split.lease, Outcome(state="success", usage=used))
    found = read_bills(ledger, ledger.cells())
    assert found == bills(ledger.events(kinds=BILLED))
    seconds = {once: 36.0, failed: 0.0, twice: 72.0, split: 46.0}
    assert {who: one.seconds for who, one in found.items()} == {
        claim.lease.fingerprint: value for claim, value in seconds.items()
    }


def test_a_bill_counts_every_attempt_whatever_came_of_it() -> None:
    story = Story()
    failed = Outcome(state="failed", retry_in=0.0, usage=Usage(seconds=36, gpus=1))
    story.ledger.finish(story.claim("one").lease, failed)
    lease = story.claim("two").lease
    data = {"attempt": lease.attempt, "token": lease.token, "usage": {"seconds": 36.0, "gpus": 1}}
    story.ledger.record(Event(kind="used", fingerprint=CELL.fingerprint, data=data))
    story.ledger.release([lease], "stopped")
    story.ledger.finish(
        story.claim("three").lease, Outcome(state="success", usage=Usage(seconds=36, gpus=1))
    )
    assert billed(story) == {"attempts": 3, "slot_hours": 0.03, "gpu_hours": 0.03}


def test_an_attempt_whose_runner_died_is_counted_and_said_to_be_unknown() -> None:
    story = Story()
    story.claim("dies")
    story.clock.advance(60)
    story.ledger.reap()
    assert billed(story)["attempts_unrecorded"] == 1


def test_an_attempt_that_finishes_after_it_was_reaped_counts_and_is_billed_once() -> None:
    story = Story()
    claim = story.claim("slow")
    story.clock.advance(60)
    story.ledger.reap()
    late = Outcome(state="success", usage=Usage(seconds=36))
    story.ledger.finish(claim.lease, late)
    (attempt,) = attempts(story.ledger, CELL.fingerprint)
    assert (attempt.how, attempt.ended_at, attempt.outcome) == ("finished", 62, late)
    assert billed(story) == {"attempts": 1, "slot_hours": 0.01, "gpu_hours": 0}
