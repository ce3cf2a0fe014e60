"""What a run puts right before it begins."""

from __future__ import annotations

import os

import pytest

from benchfleet.domain.attempt import Lease, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.part import Split
from benchfleet.domain.slots import BEGAN
from benchfleet.engines.processes import owner
from benchfleet.ledger.history import BILLED, bill
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.recovery.startup import release_killed
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell

HERE = LocalHost(machine="lab", process=owner(os.getpid()), space="boot pid:[1]")
DEAD = f"{os.getpid()}@1"  # another process had this number before


def held(process: str, machine: str = "lab", space: str = "boot pid:[1]") -> MemoryLedger:
    """A ledger of which a runner with this process holds one cell of two."""
    ledger = MemoryLedger()
    ledger.enroll([sample_cell(number) for number in range(2)])
    data = {"runner": "old", "machine": machine, "process": process, "space": space}
    ledger.record(Event(kind=BEGAN, data=data))
    claim_any(ledger, RunnerId("old"))
    return ledger


def running(ledger: MemoryLedger) -> int:
    return len(list(ledger.cells(states=["running"])))


def test_what_a_runner_held_that_was_killed_here_is_released_at_once() -> None:
    ledger = held(DEAD)
    assert release_killed(ledger, HERE) == 1
    assert running(ledger) == 0
    (event,) = ledger.events(kinds={"released"})
    assert event.data["reason"] == "its runner was killed"
    assert {record.tries for record in ledger.cells()} == {0}


def test_the_attempt_of_a_killed_runner_is_billed_and_nobody_knows_what_it_used() -> None:
    ledger = held(DEAD)
    release_killed(ledger, HERE)
    cells = {record.fingerprint for record in ledger.cells()}
    total = bill(ledger.events(kinds=BILLED), cells)
    assert (total.attempts, total.unrecorded) == (1, 1)


@pytest.mark.parametrize(
    ("process", "machine", "space"),
    [
        (owner(os.getpid()), "lab", "boot pid:[1]"),  # it is alive
        (DEAD, "other", "boot pid:[1]"),
        (DEAD, "lab", "an earlier boot pid:[1]"),
        (DEAD, "lab", "boot pid:[2]"),  # another container
        (DEAD, "lab", ""),  # what an older benchfleet recorded
        ("", "lab", "boot pid:[1]"),
    ],
    ids=["alive", "machine", "boot", "container", "older", "nameless"],  # the same in each worker
)
def test_only_what_is_seen_to_be_dead_here_loses_its_leases(
    process: str, machine: str, space: str
) -> None:
    ledger = held(process, machine, space)
    assert release_killed(ledger, HERE) == 0
    assert running(ledger) == 1


def test_nothing_is_seen_where_processes_have_no_names() -> None:
    ledger = held(DEAD, space="")
    release_killed(ledger, LocalHost(machine="lab"))
    assert running(ledger) == 1


def test_parts_of_split_cells_are_released_too() -> None:
    ledger = held(DEAD)
    (record,) = ledger.cells(states=["running"], with_cell=True)
    assert record.cell is not None
    split = Split.evenly(record.fingerprint, record.attempt, record.token, 2)
    parts = split.cells(record.cell)
    ledger.record(split.event(parts))
    ledger.enroll(parts)
    names = [str(part.fingerprint) for part in parts]
    (claim,) = ledger.claim(RunnerId("old"), names)
    release_killed(ledger, HERE)
    among = ledger.cells(fingerprints=names)
    assert {record.state for record in among} == {"pending"}
    lost: Lease = claim.lease
    assert ledger.renew([lost]) == []
