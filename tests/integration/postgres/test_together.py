"""Several handles and slots at once: enrolling, claiming and ending, and what is seen of it."""

from __future__ import annotations

import os
import resource
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.ledger.checking import faults
from benchfleet.ledger.history import counts
from benchfleet.testing import sample_cell
from cut_lines import Line
from postgres import Postgres

from .conftest import ME, SUCCESS


@pytest.mark.parametrize("several", [False, True])
def test_an_exchange_is_one_transaction(
    opened: Callable[..., Any], postgres: Postgres, several: bool
) -> None:
    ledger = opened()
    ledger.enroll([sample_cell(n) for n in range(8)])
    offer = Offer(among=Choice(sample_cell(n).fingerprint for n in range(8)))
    claims = ledger.claim(ME, offer, 1 + several)
    ended = [(claim.lease, SUCCESS) for claim in claims]
    assert len(ledger.exchange(ended, ME, offer, 1 + several)[1]) == 1 + several
    wrote = f"select distinct xmin::text from {ledger.schema}."  # noqa: S608
    cells = postgres.sql(f"{wrote}cell where state in ('success', 'running')")
    assert cells.isdecimal()
    assert postgres.sql(f"{wrote}ended") == cells


def test_a_runner_that_is_stopped_while_it_reads_holds_up_nobody(
    opened: Callable[..., Any],
) -> None:
    reader, writer = opened(), opened()
    writer.enroll([sample_cell(n) for n in range(5000)])
    reading = reader.cells()
    next(reading)
    assert len(writer.claim(ME, Offer(), 10)) == 10
    assert all(record.state == "pending" for record in reading)  # as it was when it began


def test_handles_that_enroll_at_once_enroll_each_cell_once(opened: Callable[..., Any]) -> None:
    handles = [opened() for _ in range(4)]
    new: list[int] = []

    def enroll(ledger: Any) -> None:
        new.append(ledger.enroll([sample_cell(number) for number in range(300)]))

    threads = [threading.Thread(target=enroll, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(new) == [0, 0, 0, 300]
    assert len(handles[0].events(kinds=["enrolled"])) == 1


def test_an_event_is_not_seen_before_those_with_smaller_numbers(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    """A claim that has its number but has not committed holds up who would look past it."""
    import psycopg

    ledger = opened()
    ledger.enroll([sample_cell(0)])
    with psycopg.connect(postgres.url()) as slow:
        slow.execute("select pg_advisory_xact_lock_shared(%s)", (ledger._turn,))
        slow.execute(
            f"insert into {ledger.schema}.event (at, kind, fingerprint, data)"  # noqa: S608
            " values (0, 'slow', '', '{}')"
        )
        seen: list[list[str]] = []
        looking = threading.Thread(target=lambda: seen.append([e.kind for e in ledger.events()]))
        looking.start()
        looking.join(0.3)
        assert not seen
        slow.commit()
        looking.join(30)
    assert seen == [["enrolled", "slow"]]


def test_whoever_follows_the_events_is_told_of_each_once_and_in_order(
    opened: Callable[..., Any],
) -> None:
    """A claim is told by its cell's row while that runs, and then by the one of its end."""
    ledger, looking = opened(), opened()
    ledger.enroll([sample_cell(number) for number in range(150)])
    told: list[Event] = looking.events()
    ended = threading.Event()

    def work() -> None:
        runner, number = RunnerId(uuid.uuid4().hex), 0
        while claims := ledger.claim(runner, Offer(), 1 + number % 2):
            number += 1
            if number % 7 == 0:
                ledger.release([claims.pop().lease], "to be told too")
            for claim in claims:
                retry = 0.0 if number % 5 == 0 else None
                ledger.finish(claim.lease, Outcome(state="failed", retry_in=retry))

    def follow() -> None:
        while not ended.is_set():
            told.extend(looking.events(told[-1].seq))

    follower = threading.Thread(target=follow)
    follower.start()
    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    ended.set()
    follower.join()
    told += looking.events(told[-1].seq)
    assert told == ledger.events()
    assert list(faults(ledger)) == []


@pytest.mark.parametrize("chosen", [False, True])
def test_slots_that_claim_and_end_at_once_do_so_in_one_transaction(
    opened: Callable[..., Any], postgres: Postgres, chosen: bool
) -> None:
    import psycopg

    ledger = opened()
    ledger.enroll([sample_cell(number) for number in range(12)])
    among = Choice(cell.fingerprint for cell in ledger.cells())
    offer = Offer(among=among if chosen else None)
    claims: list[Any] = []

    def together(asked: Any, slots: list[Callable[[], object]], told: str) -> None:
        """All of them at once, in two transactions: the first, and those who waited for it."""
        with psycopg.connect(postgres.url()) as slow:
            slow.execute("select pg_advisory_xact_lock(%s)", (ledger._turn,))
            threads = [threading.Thread(target=slot) for slot in slots]
            for thread in threads:
                thread.start()
            while len(asked._waiting) < len(slots) - 1:  # it tells nobody that somebody waits
                time.sleep(0.01)
            slow.commit()
            for thread in threads:
                thread.join()
        rows = f"select count(*), count(distinct xmin::text) from {ledger.schema}.{told}"  # noqa: S608
        assert postgres.sql(rows) == "9|2"

    claiming = [lambda: claims.extend(ledger.claim(ME, offer))] * 9
    together(ledger._claiming._claim, claiming, "cell where state = 'running'")
    ending = [partial(ledger.finish, claim.lease, SUCCESS) for claim in claims]
    together(ledger._finish, ending, "ended")
    assert len(ledger.events(kinds=["claimed"])) == len(ledger.events(kinds=["finished"])) == 9


@pytest.mark.parametrize("chosen", [False, True])
def test_slots_that_end_and_claim_at_once_are_each_told_of_their_own(
    opened: Callable[..., Any], postgres: Postgres, chosen: bool
) -> None:
    import psycopg

    ledger = opened()
    ledger.enroll([sample_cell(number) for number in range(18)])
    among = Choice(cell.fingerprint for cell in ledger.cells())
    offer = Offer(among=among if chosen else None)
    held = [claim.lease for claim in ledger.claim(ME, offer, 9)]
    ledger.release(held[8:], "lost")
    told: dict[int, Any] = {}

    def slot(number: int) -> None:
        told[number] = ledger.exchange([(held[number], SUCCESS)], ME, offer, 1)

    with psycopg.connect(postgres.url()) as slow:
        slow.execute("select pg_advisory_xact_lock(%s)", (ledger._turn,))
        threads = [threading.Thread(target=slot, args=(number,)) for number in range(9)]
        for thread in threads:
            thread.start()
        while len(ledger._claiming._claim._waiting) < 8:  # it tells nobody that somebody waits
            time.sleep(0.01)
        slow.commit()
        for thread in threads:
            thread.join()
    assert {number: refused == [None] for number, (refused, _) in told.items()} == {
        number: number != 8 for number in range(9)
    }
    assert all(len(claims) == 1 for _, claims in told.values())
    assert len({claims[0].lease.fingerprint for _, claims in told.values()}) == 9
    assert counts(ledger.cells()).success == 8


def test_whoever_listens_is_told_when_cells_became_claimable(
    own_postgres: Postgres, campaign: str
) -> None:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    told = threading.Event()

    def heard() -> bool:
        done = told.wait(30)
        told.clear()
        return done

    with (
        closing(PostgresLedger(own_postgres.url(), campaign=campaign)) as ledger,
        closing(PostgresLedger(own_postgres.url(), campaign=campaign, lease=0.2)) as other,
    ):
        ledger.listen(told.set)
        assert heard()  # it may have missed something
        other.enroll([sample_cell(0)])
        assert heard()
        (claim,) = other.claim(ME, Offer())
        other.release([claim.lease], "given back")
        assert heard()
        (claim,) = other.claim(ME, Offer())
        time.sleep(0.3)
        other.reap()
        assert heard()
        other.record(Event(kind="cancel_asked", fingerprint=sample_cell(0).fingerprint))
        other.record(Event(kind="host_lost"))
        assert not told.wait(0.3)
        other.record(Event(kind="retry_asked", fingerprint=sample_cell(0).fingerprint))
        assert heard()
        (claim,) = other.claim(ME, Offer())
        other.finish(claim.lease, Outcome(state="failed", retry_in=0.0))
        assert heard()
        (claim,) = other.claim(ME, Offer())
        assert other.finish_all([(claim.lease, SUCCESS), (claim.lease, SUCCESS)]) == [None, None]
        assert not told.wait(0.3)
        other.enroll([sample_cell(1), sample_cell(2)])
        assert heard()
        claims = other.claim(ME, Offer(), 2)
        again = Outcome(state="failed", retry_in=1000.0)
        other.finish_all([(claim.lease, again) for claim in claims])
        assert heard()
        other.record(Event(kind="gate_closed"))
        assert heard()
        own_postgres.stop()
        own_postgres.start()
        assert heard()


def test_a_runner_of_a_thousand_slots_listens_on_after_its_line_was_cut(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    """Where more than 1024 files are open, a new line has a number that is beyond those."""
    told = threading.Event()
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as undo:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(before, min(2048, most)), most))
        undo.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (before, most))
        ledger, other = opened(url=postgres.url(port=line.port)), opened()
        for _ in range(1100):
            undo.callback(os.close, os.dup(0))
        ledger.listen(told.set)
        assert told.wait(30)
        told.clear()
        other.enroll([sample_cell(0)])
        assert told.wait(30)
        line.cut()
        told.clear()
        assert told.wait(30)  # it listens again
        told.clear()
        other.enroll([sample_cell(1)])
        assert told.wait(30)
        ledger.close()
