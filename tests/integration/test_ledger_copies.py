"""Ledgers brought from one place to another, and checked."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.errors import ClaimLost, LedgerError
from benchfleet.ledger.fsck import problems
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.ledger.table_copy import CopyableLedger, copy_ledger
from benchfleet.testing import FakeClock, sample_cell
from benchfleet.testing.claims import claim_any
from postgres import Postgres

ME, OTHER = RunnerId("me"), RunnerId("other")
SUCCESS = Outcome(state="success", digest="abc", metrics={"overall_score": 1 / 3})
FAILED = Outcome(
    state="failed",
    failure=Failure(stage="load", kind="oom", message="räumt \x00 nicht", retryable=True),
    retry_in=1e6 / 3,
)
Opened = Callable[..., CopyableLedger]


@pytest.fixture
def opened(tmp_path: Path, postgres: Postgres, clock: FakeClock) -> Any:
    """Opens ledgers by the name of their place, ``sqlite-1`` or ``postgres-1`` and so on."""
    campaign = uuid.uuid4().hex
    databases: dict[str, str] = {}
    with ExitStack() as open_ones:

        def opened(place: str) -> CopyableLedger:
            from benchfleet.ledger.postgres.ledger import PostgresLedger

            if place.startswith("sqlite"):
                ledger: CopyableLedger = SqliteLedger(
                    tmp_path / place, campaign=campaign, clock=clock
                )
            else:
                if place not in databases:
                    databases[place] = f"copy_{uuid.uuid4().hex[:8]}"
                    postgres.sql(f"create database {databases[place]}")
                url = postgres.url(database=databases[place])
                ledger = PostgresLedger(url, campaign=campaign, clock=clock)
            open_ones.enter_context(closing(ledger))
            return ledger

        yield opened


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def live(ledger: CopyableLedger, clock: FakeClock) -> None:
    """A history with a bit of everything."""
    ledger.enroll(sample_cell(n, model="abc"[n % 3], gpus=n % 2, priority=n % 4) for n in range(40))
    ledger.enroll([sample_cell(5, model="c", gpus=1, vram=2**33, priority=9)])
    for number, claim in enumerate(claim_any(ledger, ME, 30)):
        clock.advance(0.1)
        if number % 5 == 0:
            ledger.finish(claim.lease, FAILED)
        elif number % 5 == 1:
            ledger.release([claim.lease], 'a "reason"')
        elif number % 5 < 4:
            ledger.finish(claim.lease, SUCCESS)
    clock.advance(61)
    ledger.reap()
    for cell in (sample_cell(1, model="b", gpus=1), sample_cell(2, model="c")):
        ledger.record(Event(kind="cancel_asked", fingerprint=cell.fingerprint))
        ledger.record(Event(kind="retry_asked", fingerprint=cell.fingerprint, data={"a": [1, "ü"]}))
    ledger.record(Event(kind="host_lost", data={"host": "lab1"}))


def all_of(ledger: CopyableLedger) -> dict[str, list[tuple[Any, ...]]]:
    with ledger.tables() as tables:
        return {table: [tuple(row) for row in rows] for table, rows in tables}


@pytest.mark.parametrize(
    "way", [("sqlite-1", "postgres-1", "sqlite-2"), ("postgres-1", "sqlite-1", "postgres-2")]
)
def test_a_copy_there_and_back_is_the_same_to_the_last_number(
    opened: Opened, clock: FakeClock, way: tuple[str, ...]
) -> None:
    source, between, last = map(opened, way)
    live(source, clock)
    assert copy_ledger(source, between) == 40
    assert copy_ledger(between, last) == 40
    assert all_of(last) == all_of(between) == all_of(source)
    for ledger in (between, last):
        assert list(ledger.cells(with_cell=True)) == list(source.cells(with_cell=True))
        assert ledger.events() == source.events()
        assert list(problems(ledger)) == []


@pytest.mark.parametrize("place", ["sqlite-2", "postgres-1"])
def test_a_large_copy_reports_how_many_rows_it_has_copied(opened: Opened, place: str) -> None:
    source, output = opened("sqlite-1"), list[tuple[int, int]]()
    source.enroll(sample_cell(number) for number in range(2500))
    copy_ledger(source, opened(place), seen=lambda *one: output.append(one))
    assert output == [(1000 * number, 0) for number in range(1, 6)]


@pytest.fixture
def repository(clock: FakeClock, tmp_path: Path) -> Any:
    """Opens the ledger in a repository, by the name of an installation."""
    booted = clock() - 500.0
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "lab.git"], check=True)
    with ExitStack() as open_ones:

        def opened(installation: str = "mirror") -> GitLedger:
            ledger = GitLedger(
                f"git+file://{tmp_path / 'lab.git'}",
                campaign="study",
                folder=tmp_path / installation,
                lease=60.0,
                clock=lambda: clock() - booted,
                wall=clock,
                max_age=0.0,
            )
            return open_ones.enter_context(closing(ledger))

        yield opened


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"])
def test_what_happened_in_a_repository_is_copied_with_its_history(
    opened: Opened, clock: FakeClock, repository: Callable[..., GitLedger], place: str
) -> None:
    source, target = repository(), opened(place)
    live(source, clock)
    assert copy_ledger(source, target) == 40
    same_cells(target, source)
    assert target.events() == source.events()
    assert list(problems(target)) == []


@pytest.mark.parametrize("place", ["sqlite-1", "postgres-1"])
def test_a_repository_gets_the_history_that_another_ledger_has(
    opened: Opened, clock: FakeClock, repository: Callable[..., GitLedger], place: str
) -> None:
    source, early = opened(place), repository("early")
    live(source, clock)
    target, seen = repository(), list[tuple[int, int]]()
    assert copy_ledger(source, target, seen=lambda *output: seen.append(output)) == 40
    assert seen == [(number, len(seen) - 1) for number in range(len(seen))]
    for ledger in (target, early, repository("newcomer")):
        same_cells(ledger, source)
        output, known = ledger.events(), source.events()
        first = [event for event in known if event.kind == "enrolled"]
        rest = [event for event in known if event.kind != "enrolled"]
        assert [replace(one, seq=0) for one in output] == [
            replace(one, seq=0) for one in first + rest
        ]
        assert list(problems(ledger)) == []
    tokens = {record.fingerprint: record.token for record in source.cells()}
    claims = claim_any(early, OTHER, 100)
    assert {claim.lease.fingerprint for claim in claims} == {
        claim.lease.fingerprint for claim in claim_any(source, OTHER, 100)
    }
    assert all(claim.lease.token == tokens[claim.lease.fingerprint] + 1 for claim in claims)
    early.finish(claims[0].lease, SUCCESS)
    ignore_running = {claim.lease.fingerprint for claim in claims[1:]}
    assert {record.fingerprint for record in target.cells(states=["running"])} == ignore_running
    assert list(problems(target)) == []
    with pytest.raises(LedgerError, match="is not empty"):
        copy_ledger(source, target, ignore_running=True)


def test_a_history_that_lacks_an_attempt_is_not_copied_to_a_repository(
    opened: Opened, clock: FakeClock, repository: Callable[..., GitLedger]
) -> None:
    source: Any = opened("sqlite-1")
    live(source, clock)
    source._connection.execute("delete from event where seq = 3")
    target = repository()
    with pytest.raises(LedgerError, match=r"of 1 attempt of .* the history tells 0"):
        copy_ledger(source, target)
    assert list(target.cells()) == []


def same_cells(ledger: CopyableLedger, other: CopyableLedger) -> None:
    """But for what a clock that began at another time rounds."""
    for one, two in zip(ledger.cells(with_cell=True), other.cells(with_cell=True), strict=True):
        assert one.ready_in == pytest.approx(two.ready_in, abs=120)
        assert replace(one, ready_in=0.0) == replace(two, ready_in=0.0)


@pytest.mark.parametrize("way", [("sqlite-1", "postgres-1"), ("postgres-1", "sqlite-1")])
def test_life_goes_on_in_a_copy(opened: Opened, clock: FakeClock, way: tuple[str, str]) -> None:
    source, target = map(opened, way)
    live(source, clock)
    copy_ledger(source, target)
    before = {record.fingerprint: record.token for record in target.cells()}
    seq = target.events()[-1].seq
    claims = claim_any(target, OTHER, 100)
    assert claims == claim_any(source, OTHER, 100)
    assert all(claim.lease.token > before[claim.lease.fingerprint] for claim in claims)
    target.finish(claims[0].lease, SUCCESS)
    assert target.enroll([sample_cell(99, model="new")]) == 1
    assert target.events(seq)[0].seq == seq + 1
    assert list(problems(target)) == []


def test_a_place_that_is_not_empty_is_not_copied_to(opened: Opened, clock: FakeClock) -> None:
    for source, target in (("sqlite-1", "postgres-1"), ("postgres-2", "sqlite-2")):
        live(opened(source), clock)
        opened(target).record(Event(kind="host_lost"))
        before = all_of(opened(target))
        with pytest.raises(LedgerError, match="is not empty: it has 0 cells and 1 event"):
            copy_ledger(opened(source), opened(target))
        assert all_of(opened(target)) == before


def test_what_runners_hold_is_copied_only_where_that_is_known(
    opened: Opened, clock: FakeClock
) -> None:
    source, target = opened("sqlite-1"), opened("postgres-1")
    source.enroll([sample_cell(0), sample_cell(1)])
    (claim,) = claim_any(source, ME)
    with pytest.raises(LedgerError, match=r"runners hold 1 of its cells, such as .*add --yes"):
        copy_ledger(source, target)
    assert copy_ledger(source, target, ignore_running=True) == 2
    target.finish(claim.lease, SUCCESS)
    with pytest.raises(ClaimLost):
        target.finish(claim.lease, Outcome(state="failed"))


def test_a_copy_that_breaks_off_leaves_nothing(opened: Opened, clock: FakeClock) -> None:
    source, target = opened("sqlite-1"), opened("postgres-1")
    live(source, clock)

    def broken() -> Any:
        with source.tables() as tables:
            yield next(tables)
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        target.fill(broken())
    assert copy_ledger(source, target) == 40


def test_a_history_that_lacks_an_attempt_is_reported(opened: Opened, clock: FakeClock) -> None:
    ledger: Any = opened("sqlite-1")
    live(ledger, clock)
    assert list(problems(ledger)) == []
    ledger._connection.execute("delete from event where seq = 3")
    assert [fault.partition(": ")[2] for fault in problems(ledger)] == [
        "begun 1 times, of which the history tells 0"
    ]
