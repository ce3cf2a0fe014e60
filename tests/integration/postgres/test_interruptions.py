"""Servers that end or stay away and lines that break: what was asked is done once, or said."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.domain.event import Event
from benchfleet.errors import LedgerError, LedgerUnreachable
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from cut_lines import Line
from postgres import Postgres
from states import states

from .conftest import ME, SUCCESS, finishes


def test_a_finish_whose_answer_was_lost_is_asked_again(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    ledger = opened(url=postgres.url(port=line.port))
    ledger.enroll([sample_cell(n) for n in range(2)])
    first, second = claim_any(ledger, ME, 2)
    line.drop_next_answer()
    ledger.finish(first.lease, SUCCESS)
    line.cut()
    ledger.finish(second.lease, SUCCESS)
    assert set(finishes(ledger).values()) == {1}
    assert states(ledger)["success"] == 2


def test_a_claim_whose_answer_was_lost_runs_out_and_no_cell_is_lost(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    ledger = opened(url=postgres.url(port=line.port), lease=0.2)
    ledger.enroll([sample_cell(0), sample_cell(1)])
    names = [sample_cell(0).fingerprint, sample_cell(1).fingerprint]
    line.drop_next_answer()
    (claim,) = ledger.claim(ME, names)
    assert claim.lease.fingerprint == names[1]  # the first one is held, and nobody knows
    ledger.finish(claim.lease, SUCCESS)
    time.sleep(0.3)
    assert ledger.reap() == names[:1]
    (claim,) = ledger.claim(ME, names)
    ledger.finish(claim.lease, SUCCESS)


def test_a_server_that_stays_away_is_named_once_patience_ends(
    own_postgres: Postgres, opened: Callable[..., Any]
) -> None:
    ledger = opened(url=own_postgres.url(), timeout=0.3)
    own_postgres.stop()
    with pytest.raises(LedgerUnreachable, match=r"cannot be reached: .*refused") as caught:
        ledger.reap()
    assert caught.value.retryable
    own_postgres.start()
    assert ledger.reap() == []


@pytest.mark.timeout(60)
def test_a_limited_call_does_not_wait_for_a_server_that_is_away(
    own_postgres: Postgres, opened: Callable[..., Any]
) -> None:
    """Its patience is two minutes; a test that has to wait for them fails by its own limit."""
    ledger = opened(url=own_postgres.url())
    ledger.enroll([sample_cell(0)])
    (claim,) = claim_any(ledger, ME, 1)
    own_postgres.stop()
    with ledger.within(0.0):
        with pytest.raises(LedgerUnreachable):
            ledger.events()
        with pytest.raises(LedgerUnreachable):
            ledger.renew([claim.lease])


def test_an_opening_waits_while_the_server_restarts(
    own_postgres: Postgres, opened: Callable[..., Any]
) -> None:
    own_postgres.stop()
    found: list[object] = []

    def opens() -> None:
        try:
            found.append(opened(url=own_postgres.url()).enroll([sample_cell(0)]))
        except LedgerError as error:
            found.append(error)

    opening = threading.Thread(target=opens)
    opening.start()
    own_postgres.start()
    opening.join(60)
    assert found == [1]


@pytest.mark.parametrize(
    ("output", "seconds"),
    [
        ("FATAL:  the database system is starting up", 120.0),
        ("terminating connection due to administrator command", 120.0),
        ('connection to server at "db", port 1 failed: Connection refused\n\tIs the server running'
         " on that host and accepting TCP/IP connections?", 5.0),
        ("server closed the connection unexpectedly", 5.0),
        ("FATAL:  sorry, too many clients already", 5.0),
        ("session is read-only", 5.0),
        ('FATAL:  password authentication failed for user "me"', 0.0),
        ('could not translate host name "db" to address', 0.0),
    ],
)  # fmt: skip
def test_opening_waits_for_what_passes_by_itself_alone(output: str, seconds: float) -> None:
    import psycopg

    from benchfleet.ledger.postgres.errors import opening_timeout

    assert opening_timeout(psycopg.OperationalError(output), 120.0) == seconds


ASLEEP = """
import sys
from contextlib import closing
from benchfleet.ledger.postgres.ledger import PostgresLedger

url, campaign = sys.argv[1:]
with closing(PostgresLedger(url, campaign=campaign, timeout=0.2)) as ledger:
    print("open", flush=True)
    sys.stdin.readline()
    ledger.reap()
"""


@pytest.mark.parametrize("opening", [True, False])
def test_time_asleep_is_no_patience(
    opened: Callable[..., Any], line: Line, postgres: Postgres, campaign: str, opening: bool
) -> None:
    """Stopped while it asks, its connection cut meanwhile: it has waited for nobody yet."""
    opened()
    line.held = opening
    with subprocess.Popen(
        [sys.executable, "-c", ASLEEP, postgres.url(port=line.port), campaign],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as asleep:
        assert asleep.stdin is not None
        assert asleep.stdout is not None
        if not opening:
            asleep.stdout.readline()
            line.held = True
            line.cut()
        asleep.stdin.write("\n")
        asleep.stdin.flush()
        line.wait_for_somebody()
        asleep.send_signal(signal.SIGSTOP)
        time.sleep(0.4)  # twice its patience
        line.cut()
        line.held = False
        asleep.send_signal(signal.SIGCONT)
        assert asleep.wait(60) == 0


def test_cells_may_be_left_unread_where_the_line_breaks(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    ledger = opened(url=postgres.url(port=line.port))
    ledger.enroll([sample_cell(0), sample_cell(1)])
    cells = ledger.cells()
    next(cells)
    line.cut()
    cells.close()


def test_a_call_with_little_time_uses_a_new_connection_if_the_pooled_ones_were_cut(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    ledger = opened(url=postgres.url(port=line.port))
    ledger.enroll([sample_cell(0), sample_cell(1)])
    leases = [claim.lease for claim in claim_any(ledger, ME)]
    assert ledger.renew(leases) == leases
    reads: list[Callable[[], object]] = [ledger.events, lambda: list(ledger.cells())]
    claims: list[Callable[[], object]] = [ledger.reap, lambda: claim_any(ledger, ME)]
    claims.append(lambda: ledger.renew(leases))
    for ask in (*reads, *claims):
        line.cut()
        with ledger.within(0.0):
            ask()


def test_a_connection_that_read_cells_still_knows_what_it_prepared(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    name = f"reader_{uuid.uuid4().hex[:8]}"
    ledger = opened(url=f"{postgres.url()}?application_name={name}")
    ledger.enroll([sample_cell(n) for n in range(40)])
    asked = f"select pid from pg_stat_activity where application_name = '{name}' order by pid"  # noqa: S608

    def at_work() -> None:
        for claim in claim_any(ledger, ME, 2):
            ledger.finish(claim.lease, SUCCESS)
        for _ in range(6):  # psycopg, too, prepares what it is asked often
            ledger.record(Event(kind="host_lost"))
        next(ledger.cells())

    at_work()
    lines = postgres.sql(asked)
    for _ in range(4):
        at_work()
    assert postgres.sql(asked) == lines


def test_closing_ends_every_wait(own_postgres: Postgres, opened: Callable[..., Any]) -> None:
    ledger = opened(url=own_postgres.url())
    ledger.enroll([sample_cell(0)])
    own_postgres.stop()
    raised: list[BaseException] = []

    def reap() -> None:
        try:
            ledger.reap()
        except LedgerUnreachable as error:
            raised.append(error)

    waiting = threading.Thread(target=reap)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    ledger.close()
    waiting.join(30)
    assert len(raised) == 1
