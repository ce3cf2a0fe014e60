"""What is seen of a ledger on a real PostgreSQL server while others change it."""

from __future__ import annotations

import os
import resource
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.ledger.fsck import problems
from benchfleet.ledger.postgres import connections
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from cut_lines import Line
from postgres import Postgres

from .conftest import ME, SUCCESS


def test_a_runner_that_is_stopped_while_it_reads_holds_up_nobody(
    opened: Callable[..., Any],
) -> None:
    reader, writer = opened(), opened()
    writer.enroll([sample_cell(n) for n in range(5000)])
    reading = reader.cells()
    next(reading)
    assert len(claim_any(writer, ME, 10)) == 10
    assert all(record.state == "pending" for record in reading)  # as it was when it began


def test_cells_are_read_on_where_the_line_broke(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    ledger = opened(url=postgres.url(port=line.port))
    ledger.enroll([sample_cell(n) for n in range(5000)])
    reading = ledger.cells()
    read = [next(reading) for _ in range(100)]
    line.cut()
    assert [record.fingerprint for record in (*read, *reading)] == [
        sample_cell(n).fingerprint for n in range(5000)
    ]


def test_an_event_is_not_seen_before_those_with_smaller_numbers(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    """One that has its number but is not committed holds up who would look past it."""
    import psycopg

    ledger = opened()
    ledger.enroll([sample_cell(0)])
    with psycopg.connect(postgres.url()) as slow:
        slow.execute(f"set search_path to {ledger.schema}".encode())
        slow.execute("insert into event (at, kind, fingerprint, data) values (0, 'slow', '', '{}')")
        seen: list[list[str]] = []
        looking = threading.Thread(target=lambda: seen.append([e.kind for e in ledger.events()]))
        looking.start()
        looking.join(0.3)
        assert not seen
        slow.commit()
        looking.join(30)
    assert seen == [["enrolled", "slow"]]


def test_a_reader_of_the_events_gets_each_once_and_in_order(
    opened: Callable[..., Any],
) -> None:
    ledger, looking = opened(), opened()
    ledger.enroll([sample_cell(number) for number in range(150)])
    output: list[Event] = looking.events()
    ended = threading.Event()

    def work() -> None:
        runner, number = RunnerId(uuid.uuid4().hex), 0
        while claims := list(claim_any(ledger, runner, 1 + number % 2)):
            number += 1
            if number % 7 == 0:
                ledger.release([claims.pop().lease], "for another event")
            for claim in claims:
                retry = 0.0 if number % 5 == 0 else None
                ledger.finish(claim.lease, Outcome(state="failed", retry_in=retry))

    def follow() -> None:
        while not ended.is_set():
            output.extend(looking.events(output[-1].seq))

    follower = threading.Thread(target=follow)
    follower.start()
    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    ended.set()
    follower.join()
    output += looking.events(output[-1].seq)
    assert output == ledger.events()
    assert list(problems(ledger)) == []


def test_a_copy_of_a_large_history_is_not_cut_off(
    opened: Callable[..., Any], postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = opened().schema
    postgres.sql(
        f"insert into {schema}.event (seq, at, kind, fingerprint, data)"  # noqa: S608
        " select n, n, 'host_lost', '', '{}' from generate_series(1, 200000) as n"
    )
    monkeypatch.setattr(connections, "_STATEMENT_TIMEOUT", "50ms")  # instead of a minute
    with opened().tables() as tables:
        read = {table: sum(1 for _ in rows) for table, rows in tables}
    assert read["event"] == 200000


def test_a_listener_is_woken_when_cells_became_claimable(
    own_postgres: Postgres, opened: Callable[..., Any]
) -> None:
    output = threading.Event()

    def heard() -> bool:
        done = output.wait(30)
        output.clear()
        return done

    ledger = opened(url=own_postgres.url())
    other = opened(url=own_postgres.url(), lease=0.2)
    ledger.listen(output.set)
    assert heard()  # it may have missed something
    other.enroll([sample_cell(0)])
    assert heard()
    (claim,) = claim_any(other, ME)
    other.release([claim.lease], "given back")
    assert heard()
    (claim,) = claim_any(other, ME)
    time.sleep(0.3)
    other.reap()
    assert heard()
    other.record(Event(kind="cancel_asked", fingerprint=sample_cell(0).fingerprint))
    other.record(Event(kind="host_lost"))
    assert not output.wait(0.3)
    other.record(Event(kind="retry_asked", fingerprint=sample_cell(0).fingerprint))
    assert heard()
    (claim,) = claim_any(other, ME)
    other.finish(claim.lease, Outcome(state="failed", retry_in=0.0))
    assert heard()
    (claim,) = claim_any(other, ME)
    assert other.finish_all([(claim.lease, SUCCESS), (claim.lease, SUCCESS)]) == [None, None]
    assert not output.wait(0.3)
    other.record(Event(kind="gate_closed"))
    assert heard()
    own_postgres.stop()
    own_postgres.start()
    assert heard()


def test_a_runner_of_a_thousand_slots_listens_on_after_its_line_was_cut(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    """Where more than 1024 files are open, a new line has a number that is beyond those."""
    output = threading.Event()
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as undo:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(before, min(2048, most)), most))
        undo.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (before, most))
        ledger, other = opened(url=postgres.url(port=line.port)), opened()
        for _ in range(1100):
            undo.callback(os.close, os.dup(0))
        ledger.listen(output.set)
        assert output.wait(30)
        output.clear()
        other.enroll([sample_cell(0)])
        assert output.wait(30)
        line.cut()
        output.clear()
        assert output.wait(30)  # it listens again
        output.clear()
        other.enroll([sample_cell(1)])
        assert output.wait(30)
        ledger.close()
