"""What is remembered of machines, places and runners over runs."""

from __future__ import annotations

import pytest

from benchfleet.domain.rental import (
    CREATED,
    RETURNING,
    VOID,
    Account,
    Rental,
    RentalHistory,
    rental_event,
)
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.rentals.memory import bad_machines, confidence
from benchfleet.rentals.stream import RentalStream

ACCOUNT = Account(provider="vast", url="", id="me")
HOUR = 3600.0


def history(*failures: tuple[str, str, float]) -> RentalHistory:
    """Rentals of machines that failed by this kind, so many seconds after 0."""
    ledger, now = MemoryLedger(clock=lambda: clock[0]), 0
    clock = [0.0]
    for number, (machine, kind, at) in enumerate(failures):
        clock[0] = at
        id = f"aaaaaaa{chr(97 + number)}"
        intent = Rental(id=id, account=ACCOUNT, machine=machine, region="Sweden").intent("b" * 10)
        failure = {"stage": "provision", "kind": kind, "message": "x"}
        events = [intent]
        if kind == "gone":
            events.append(rental_event(VOID, id, why="gone"))
        else:
            events.append(rental_event(CREATED, id, instance="1"))
            failed = {"failure": failure} if kind else {}
            events.append(rental_event(RETURNING, id, why="x", **failed))
        for event in events:
            now = ledger.record(event, after=now)
    return RentalHistory(ledger.events())


@pytest.mark.parametrize(
    ("failures", "now", "bad"),
    [
        ([("m1", "ssh_failed", 0.0)], 23 * HOUR, {"m1"}),
        ([("m1", "ssh_failed", 0.0)], 25 * HOUR, set()),
        ([("m1", "ssh_failed", 0.0), ("m1", "unhealthy", HOUR)], 100 * HOUR, {"m1"}),
        ([("m1", "ssh_failed", 0.0), ("m1", "unhealthy", HOUR)], 170 * HOUR, set()),
        ([("m1", "no_driver", 0.0)], HOUR, set()),  # the image's fault
        ([("m1", "", 0.0)], HOUR, set()),  # it went well
    ],
)
def test_a_machine_that_failed_is_left_alone_for_a_while(
    failures: list[tuple[str, str, float]], now: float, bad: set[str]
) -> None:
    assert set(bad_machines(history(*failures), now)) == {("vast", machine) for machine in bad}


def test_confidence_in_a_place_is_the_share_of_requests_that_got_an_instance() -> None:
    assert confidence(history(), "vast", "Sweden") == 0.5
    gone = history(*[("m1", "gone", 0.0)] * 2)
    assert confidence(gone, "vast", "Sweden") == 0.25
    assert confidence(gone, "vast", "Norway") == 0.5
    assert confidence(history(*[("m1", "", 0.0)] * 20), "vast", "Sweden") == pytest.approx(21 / 22)


def test_a_runner_elsewhere_is_dead_once_it_gave_no_sign_of_life_for_long() -> None:
    ledger, clock = MemoryLedger(), [0.0]
    owner, other = (RentalStream(ledger, lambda: clock[0]) for _ in range(2))
    process = {"pid": 7, "host": "lab2"}
    rental = Rental(id="aaaaaaaa", account=ACCOUNT, process=process)
    owner.intend(rental, lambda history: True)
    other.read()
    for _ in range(8):  # it lives
        clock[0] += 300.0
        owner.keep(process)
        assert not other.is_silent(rental)
    clock[0] += 800.0
    assert not other.is_silent(rental)
    clock[0] += 101.0
    assert other.is_silent(rental)


def test_one_who_has_just_come_waits_before_it_calls_another_dead() -> None:
    ledger, clock = MemoryLedger(), [0.0]
    rental = Rental(id="aaaaaaaa", account=ACCOUNT, process={"pid": 7})
    RentalStream(ledger, lambda: 0.0).intend(rental, lambda history: True)
    clock[0] = 10_000.0
    late = RentalStream(ledger, lambda: clock[0])
    late.read()
    assert not late.is_silent(rental)
    clock[0] += 901.0
    assert late.is_silent(rental)
