"""The manifest adds up: each attempt once, each rental's cost shared over its attempts."""

from __future__ import annotations

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.domain.rental import (
    CREATED,
    ENDED,
    RETURNING,
    SUBJECT,
    Account,
    Rental,
    rental_event,
)
from benchfleet.domain.usage import Rate, Usage
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.spending import read_rentals
from benchfleet.reports.manifest import COLUMNS, EVENTS, Row, manifest
from benchfleet.testing import FakeClock, sample_cell
from benchfleet.testing.claims import claim_any

ACCOUNT = Account(provider="vast", url="https://example.org", id="7")
OOM = Failure(stage="load", kind="oom", message="no memory | at all")


def rows(ledger: MemoryLedger) -> list[Row]:
    rentals = read_rentals(ledger)
    return manifest(ledger.events(kinds=EVENTS), ledger.cells(with_cell=True), rentals)


def rent(ledger: MemoryLedger, id: str, cost: int | None, **failure: str) -> None:
    """A rental that ended at this cost, or is open."""
    rental = Rental(id=id, account=ACCOUNT, entry="r4090", gpu="RTX 4090", hourly=300_000)
    last = ledger.record(rental.intent("b" * 10), after=_last(ledger))
    steps = (
        rental_event(CREATED, id, instance=f"i-{id}"),
        rental_event(RETURNING, id, why="over", **({"failure": failure} if failure else {})),
        rental_event(ENDED, id, cost=cost, exact=True),
    )
    for step in steps if cost is not None else steps[:1]:
        last = ledger.record(step, after=last)


def _last(ledger: MemoryLedger) -> int:
    return max((event.seq for event in ledger.events(fingerprints=[SUBJECT])), default=0)


def test_costs_of_a_rental_are_shared_by_seconds_and_add_up() -> None:
    clock = FakeClock()
    ledger = MemoryLedger(clock=clock)
    ledger.enroll([sample_cell(n) for n in range(3)])
    for seconds in (10, 20, 0.5):
        (claim,) = claim_any(ledger, RunnerId("me"))
        clock.advance(seconds)
        outcome = Outcome(state="success", digest="d", host="r4090-aaaaaaaa", device_type="x")
        ledger.finish(claim.lease, outcome)
    rent(ledger, "aaaaaaaa", 100_001)
    found = rows(ledger)
    assert sum(round(row["total_cost"] * 1e6) for row in found) == 100_001
    assert found[0]["total_cost"] < found[1]["total_cost"]
    assert {row["session_id"] for row in found} == {"i-aaaaaaaa"}
    assert list(found[0]) == list(COLUMNS)
    assert {row["benchmark_id"] for row in found} == {"d"}
    paths = {record.path for record in ledger.cells()}
    assert {row["output_file"] for row in found} == paths
    assert found[0]["started_at"].endswith("Z")


def test_a_rental_that_failed_and_an_attempt_that_was_lost_have_rows() -> None:
    clock = FakeClock()
    ledger = MemoryLedger(clock=clock)
    ledger.enroll([sample_cell(0)])
    (lost,) = claim_any(ledger, RunnerId("me"))
    fields = {"attempt": 1, "token": lost.lease.token, "host": "r4090-bbbbbbbb"}
    data = {**fields, "usage": {"seconds": 5.0}}
    ledger.record(Event(kind="used", fingerprint=lost.lease.fingerprint, data=data))
    ledger.release([lost.lease], "no room")
    rent(ledger, "bbbbbbbb", 7_000)
    clock.advance(1)
    (claim,) = claim_any(ledger, RunnerId("me"))
    ledger.finish(claim.lease, Outcome(state="failed", failure=OOM, host="here"))
    clock.advance(1)
    rent(ledger, "cccccccc", 5_000, stage="hardware", kind="wrong_hardware", message="RTX 3090")
    first, second, third = rows(ledger)
    assert (first["status"], first["notes"]) == ("released", "exact; no room")
    assert (first["session_id"], first["total_cost"]) == ("i-bbbbbbbb", 0.007)
    assert (second["failure_stage"], second["failure_reason"]) == ("load", "oom")
    assert (third["failure_stage"], third["total_cost"]) == ("hardware", 0.005)
    assert third["started_at"] is None


def test_a_row_has_the_speed_and_errors_that_its_benchmark_reported() -> None:
    ledger = MemoryLedger(clock=FakeClock())
    ledger.enroll([sample_cell(0)])
    (claim,) = claim_any(ledger, RunnerId("me"))
    reported = {"tokens_per_second": 150.0, "output_tokens_per_second": 196.3}
    reported |= {"total_requests": 99, "error_count": 2}
    metrics = {"samples": 99, "overall_score": 12.4}
    outcome = Outcome(state="success", digest="d", metrics=metrics, reported=reported)
    ledger.finish(claim.lease, outcome)
    (row,) = rows(ledger)
    assert (row["tokens_per_second"], row["total_requests"], row["error_count"]) == (196.3, 99, 2)
    assert row["cost_per_million_tokens"] is None


def test_a_million_tokens_cost_the_slot_at_its_speed_and_the_tokens() -> None:
    """3.60 USD an hour at 1,000 tokens/s are 1 USD; 64 and 16 tokens at 0.10 and 0.40 are 0.80."""
    paid = 16 * 1000, (64 * 0.10 + 16 * 0.40) * 1000 / 1e6, "USD"
    slot = Usage.at(Rate(cost=3.6, currency="USD"), 100.0)
    cases = (
        (slot, 3.6, 1.0),
        (Usage(seconds=9.0).with_tokens(*paid), None, 0.8),
        (slot.with_tokens(*paid), 3.6, 1.8),
        (Usage(seconds=9.0), None, None),
    )
    clock = FakeClock()
    ledger = MemoryLedger(clock=clock)
    ledger.enroll([sample_cell(n) for n in range(len(cases))])
    for usage, _, _ in cases:
        (claim,) = claim_any(ledger, RunnerId("me"))
        clock.advance(1)
        reported = {"output_tokens_per_second": 1000.0}
        outcome = Outcome(state="success", digest="d", reported=reported, usage=usage)
        ledger.finish(claim.lease, outcome)
    for row, (_, price, cost) in zip(rows(ledger), cases, strict=True):
        assert row["price_per_hour"] == (price and pytest.approx(price))
        assert row["cost_per_million_tokens"] == (cost and pytest.approx(cost))


def test_while_a_rental_is_open_its_attempts_cost_what_their_time_does() -> None:
    clock = FakeClock()
    ledger = MemoryLedger(clock=clock)
    ledger.enroll([sample_cell(n) for n in range(3)])
    rent(ledger, "aaaaaaaa", None)
    rent(ledger, "bbbbbbbb", None)
    for usage in (Usage.at(Rate(gpus=1.0, cost=2.0, currency="USD"), 1800.0), None):
        (claim,) = claim_any(ledger, RunnerId("me"))
        clock.advance(1.0)
        outcome = Outcome(state="success", digest="d", host="r4090-aaaaaaaa", usage=usage)
        ledger.finish(claim.lease, outcome)
    unused = [row for row in rows(ledger) if row["started_at"] is None]
    assert [(row["total_cost"], row["notes"]) for row in unused] == [(None, "")]
    ran = [row for row in rows(ledger) if row["started_at"] is not None]
    assert [row["total_cost"] for row in ran] == [1.0, None]
    assert {row["notes"] for row in ran} == {"estimated"}


def test_a_row_can_name_the_currency_of_its_cost() -> None:
    ledger = MemoryLedger(clock=FakeClock())
    ledger.enroll([sample_cell(0)])
    (claim,) = claim_any(ledger, RunnerId("me"))
    usage = Usage.at(Rate(gpus=1.0, cost=2.0, currency="EUR"), 1800.0)
    ledger.finish(claim.lease, Outcome(state="success", digest="d", host="here", usage=usage))
    rent(ledger, "cccccccc", 5_000)
    rentals = read_rentals(ledger)
    columns = ("total_cost", "currency")
    events, records = ledger.events(kinds=EVENTS), ledger.cells(with_cell=True)
    paid = [tuple(one.values()) for one in manifest(events, records, rentals, columns=columns)]
    assert sorted(paid) == [(0.005, "USD"), (1.0, "EUR")]
