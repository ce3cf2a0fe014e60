"""The PostgreSQL ledger with a real server that ends, real processes that die, and cut lines."""

from __future__ import annotations

import gc
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import LedgerError, LedgerTooNew, LedgerUnreachable
from benchfleet.ledger.checking import faults
from benchfleet.ledger.history import counts
from benchfleet.testing import sample_cell
from postgres import Postgres

ME = RunnerId("me")
SUCCESS = Outcome(state="success", digest="abc")
LEASE = 2.0  # seconds

WORKER = """
import sys, uuid
from benchfleet.domain.attempt import Outcome
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import ClaimLost
from benchfleet.ledger.postgres.ledger import PostgresLedger

url, campaign, lease, chosen, ways = sys.argv[1:]
ledger = PostgresLedger(url, campaign=campaign, lease=float(lease))
runner = str(uuid.uuid4())
cells = ledger.cells() if chosen == "chosen" else ()
offer = Offer(among=Choice(cell.fingerprint for cell in cells) if cells else None)
ended = Outcome(state="success", digest=runner)
def told(claim, lost):
    print("lost" if lost else claim.lease.fingerprint, flush=True)
def finish(claim):
    try:
        ledger.finish(claim.lease, ended)
    except ClaimLost as error:
        return error
while any(True for _ in ledger.cells(states=["pending", "running"])):
    claims = ledger.claim(runner, offer, 2)
    while claims:
        if ways == "exchange":
            for some in (claims[:1], claims[1:]):
                refused, new = ledger.exchange([(c.lease, ended) for c in some], runner, offer, 1)
                for claim, lost in zip(some, refused, strict=True):
                    told(claim, lost)
                claims = [*claims, *new]
            claims = claims[2:]
        else:
            for claim in claims:
                told(claim, finish(claim))
            claims = ledger.claim(runner, offer, 2)
    ledger.reap()
"""


class Line:
    """A loopback proxy to a server: its connections can be cut in the middle of whatever they say,
    and held so that neither side hears the other."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._drop_answers = 0
        self.held = False  # whether neither side hears the other
        threading.Thread(target=self._accept, daemon=True).start()
        self._mover = threading.Thread(target=self._move, daemon=True)
        self._mover.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._pairs |= {near: far, far: near}

    def _move(self) -> None:
        while not self._closed:
            with self._lock:
                ends = list(self._pairs)
            if not ends or self.held:
                time.sleep(0.01)
                continue
            with suppress(OSError, ValueError):
                for end in select.select(ends, [], [], 0.01)[0]:
                    self._pass_on(end)

    def _pass_on(self, end: socket.socket) -> None:
        other = self._pairs.get(end)
        try:
            said = end.recv(65536)
            if other is None or not said:
                raise OSError
            if self._drop_answers and other.getpeername()[1] != self._target:
                self._drop_answers -= 1
                raise OSError
            other.sendall(said)
        except OSError:
            self._end(end)

    def _end(self, end: socket.socket) -> None:
        with self._lock:
            other = self._pairs.pop(end, None)
            if other is not None:
                self._pairs.pop(other, None)
        for one in (end, other):
            if one is not None:
                one.close()

    def wait_for_somebody(self) -> None:
        """Until there is a connection."""
        while not self._pairs:
            time.sleep(0.01)

    def cut(self) -> None:
        """Break every connection there is."""
        with self._lock:
            ends = list(self._pairs)
        for end in ends:
            self._end(end)

    def drop_next_answer(self) -> None:
        """The server does what it is asked next, and the line breaks before it says so."""
        self._drop_answers = 1

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        self._mover.join()
        self.cut()


@pytest.fixture
def campaign() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def opened(postgres: Postgres, campaign: str) -> Iterator[Callable[..., Any]]:
    """Opens the ledger of the test's campaign, and closes it."""
    with ExitStack() as open_ones:

        def opened(**options: Any) -> Any:
            from benchfleet.ledger.postgres.ledger import PostgresLedger

            url = options.pop("url", postgres.url())
            ledger = PostgresLedger(url, campaign=campaign, **options)
            return open_ones.enter_context(closing(ledger))

        yield opened


@pytest.fixture
def line(postgres: Postgres) -> Iterator[Line]:
    with closing(Line(postgres.port)) as line:
        yield line


def finishes(ledger: Any) -> Counter[str]:
    return Counter(event.fingerprint for event in ledger.events(kinds=["finished"]))


def test_every_cell_is_finished_once_whatever_happens_to_servers_lines_and_workers(
    own_postgres: Postgres, campaign: str
) -> None:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    cells = [sample_cell(n, model=f"model-{n % 7}", priority=n % 3) for n in range(2000)]
    workers: list[subprocess.Popen[str]] = []
    promised: Counter[str] = Counter()

    def start(url: str) -> None:
        chosen = "chosen" if len(workers) % 2 else "any"
        ways = "exchange" if len(workers) % 4 > 1 else "one by one"
        command = [sys.executable, "-c", WORKER, url, campaign, str(LEASE), chosen, ways]
        workers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))

    def read(worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        said = (line for line in worker.stdout if line.endswith("\n"))
        promised.update(line.strip() for line in said if len(line) == 65)

    with (
        closing(Line(own_postgres.port)) as line,
        closing(PostgresLedger(own_postgres.url(), campaign=campaign, lease=LEASE)) as ledger,
    ):
        assert ledger.enroll(cells) == len(cells)
        try:
            for number in range(16):
                start(own_postgres.url(port=line.port if number % 2 else 0))
            readers = [threading.Thread(target=read, args=(worker,)) for worker in workers]
            for reader in readers:
                reader.start()

            def until(done: int) -> None:
                while counts(ledger.cells()).done < done:
                    time.sleep(0.05)

            until(100)
            workers[0].kill()
            workers[1].send_signal(signal.SIGSTOP)
            line.cut()
            until(400)
            own_postgres.stop()
            own_postgres.start()
            workers[2].kill()
            workers[3].send_signal(signal.SIGSTOP)
            until(800)
            line.cut()
            own_postgres.stop(crash=True)
            own_postgres.start()
            workers[4].kill()
            until(1200)
            line.cut()
            time.sleep(1.2 * LEASE)  # what the stopped ones hold runs out, and is taken over
            until(len(cells))
            for worker in (workers[1], workers[3]):
                worker.send_signal(signal.SIGCONT)
            for reader in readers:
                reader.join(120)
            codes = [worker.wait(60) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()
        wanted = {cell.fingerprint: 1 for cell in cells}
        assert finishes(ledger) == wanted
        assert set(promised) <= set(wanted)
        assert set(promised.values()) == {1}
        assert counts(ledger.cells()).success == len(cells)
        assert list(faults(ledger)) == []
        killed = {0, 2, 4}
        assert [code for n, code in enumerate(codes) if n not in killed] == [0] * 13


def test_a_finish_whose_answer_was_lost_is_asked_again(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    ledger = opened(url=postgres.url(port=line.port))
    ledger.enroll([sample_cell(n) for n in range(2)])
    first, second = ledger.claim(ME, Offer(), 2)
    line.drop_next_answer()
    ledger.finish(first.lease, SUCCESS)
    line.cut()
    ledger.finish(second.lease, SUCCESS)
    assert set(finishes(ledger).values()) == {1}
    assert counts(ledger.cells()).success == 2


@pytest.mark.parametrize("several", [False, True])
def test_an_exchange_whose_answer_was_lost_ends_nothing_twice(
    opened: Callable[..., Any], line: Line, postgres: Postgres, several: bool
) -> None:
    ledger = opened(url=postgres.url(port=line.port))
    ledger.enroll([sample_cell(n) for n in range(8)])
    offer = Offer(among=Choice(sample_cell(n).fingerprint for n in range(8)))
    claims = ledger.claim(ME, offer, 1 + several)
    _, claims = ledger.exchange(
        [(claim.lease, SUCCESS) for claim in claims], ME, offer, 1 + several
    )
    line.drop_next_answer()
    refused, after = ledger.exchange(
        [(claim.lease, SUCCESS) for claim in claims], ME, offer, 1 + several
    )
    assert refused == [None] * (1 + several)
    assert len(after) == 1 + several  # what was claimed unheard runs out
    assert len(finishes(ledger)) == 2 * (1 + several)
    assert set(finishes(ledger).values()) == {1}
    assert [record.state for record in ledger.cells()].count("running") == 2 * (1 + several)


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


def test_a_claim_whose_answer_was_lost_runs_out_and_no_cell_is_lost(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    ledger = opened(url=postgres.url(port=line.port), lease=0.2)
    ledger.enroll([sample_cell(0), sample_cell(1)])
    among = Choice([sample_cell(0).fingerprint, sample_cell(1).fingerprint])
    (claim,) = ledger.claim(ME, Offer(among=among))
    ledger.finish(claim.lease, SUCCESS)  # from here on it knows all that it must
    line.drop_next_answer()
    assert ledger.claim(ME, Offer(among=among)) == []
    time.sleep(0.3)
    assert ledger.reap() == [sample_cell(1).fingerprint]
    (claim,) = ledger.claim(ME, Offer(among=among))
    ledger.finish(claim.lease, SUCCESS)


@pytest.mark.parametrize(("said", "done"), [("off", "on"), ("remote_apply", "remote_apply")])
def test_what_was_committed_outlives_a_crash_whatever_the_server_is_told(
    opened: Callable[..., Any], postgres: Postgres, said: str, done: str
) -> None:
    asked = f"?options=-csynchronous_commit%3D{said}"
    with opened(url=postgres.url() + asked)._connections.one() as connection:
        assert connection.execute("show synchronous_commit").fetchone() == (done,)


def test_a_server_that_stays_away_is_named_once_patience_ends(
    own_postgres: Postgres, campaign: str
) -> None:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    with closing(PostgresLedger(own_postgres.url(), campaign=campaign, patience=0.3)) as ledger:
        own_postgres.stop()
        with pytest.raises(LedgerUnreachable, match=r"cannot be reached: .*refused") as caught:
            ledger.reap()
        assert caught.value.retryable
        own_postgres.start()
        assert ledger.reap() == []


def test_whoever_opens_it_while_the_server_restarts_waits_for_that(
    own_postgres: Postgres, campaign: str
) -> None:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    own_postgres.stop()
    found: list[object] = []

    def opens() -> None:
        try:
            with closing(PostgresLedger(own_postgres.url(), campaign=campaign)) as ledger:
                found.append(ledger.enroll([sample_cell(0)]))
        except LedgerError as error:
            found.append(error)

    opening = threading.Thread(target=opens)
    opening.start()
    own_postgres.start()
    opening.join(60)
    assert found == [1]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("FATAL:  the database system is starting up", 120.0),
        ("terminating connection due to administrator command", 120.0),
        ('connection to server at "db", port 1 failed: Connection refused\n\tIs the server running'
         " on that host and accepting TCP/IP connections?", 5.0),
        ("server closed the connection unexpectedly", 5.0),
        ('FATAL:  password authentication failed for user "me"', 0.0),
        ('could not translate host name "db" to address', 0.0),
    ],
)  # fmt: skip
def test_opening_waits_for_what_passes_by_itself_alone(said: str, seconds: float) -> None:
    import psycopg

    from benchfleet.ledger.postgres.connections import opening_patience

    assert opening_patience(psycopg.OperationalError(said), 120.0) == seconds


ASLEEP = """
import sys
from contextlib import closing
from benchfleet.ledger.postgres.ledger import PostgresLedger

url, campaign = sys.argv[1:]
with closing(PostgresLedger(url, campaign=campaign, patience=0.2)) as ledger:
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


def test_whoever_has_no_time_asks_over_another_line_where_those_kept_were_cut(
    opened: Callable[..., Any], line: Line, postgres: Postgres
) -> None:
    ledger = opened(url=postgres.url(port=line.port))
    ledger.enroll([sample_cell(0), sample_cell(1)])
    leases = [claim.lease for claim in ledger.claim(ME, Offer(), 1)]
    assert ledger.renew(leases) == leases
    reads: list[Callable[[], object]] = [ledger.events, lambda: list(ledger.cells())]
    claims: list[Callable[[], object]] = [ledger.reap, lambda: ledger.claim(ME, Offer())]
    for ask in (*reads, *claims, lambda: ledger.renew(leases)):
        line.cut()
        with ledger.within(0.0):
            ask()


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


def test_a_choice_that_nobody_has_any_more_is_forgotten(opened: Callable[..., Any]) -> None:
    ledger = opened()
    ledger.enroll([sample_cell(0)])
    among = Choice([sample_cell(0).fingerprint])
    assert ledger.claim(ME, Offer(among=among))
    kept = weakref.ref(among)
    del among
    gc.collect()
    assert kept() is None


def test_what_another_runner_gave_back_is_claimed_in_its_place(opened: Callable[..., Any]) -> None:
    mine, other = opened(), opened()
    cells = [sample_cell(n) for n in range(30)]
    mine.enroll(cells)
    among = Choice(cell.fingerprint for cell in cells)
    theirs = other.claim(RunnerId("other"), Offer(among=among), 5)
    assert mine.claim(ME, Offer(among=among))[0].cell == cells[5]
    other.release([theirs[3].lease], "given back")
    assert mine.claim(ME, Offer(among=among))[0].cell == cells[3]
    other.enroll([sample_cell(30, priority=5)])
    among.put(sample_cell(30).fingerprint)
    assert mine.claim(ME, Offer(among=among))[0].cell.priority == 5
    rest = mine.claim(ME, Offer(among=among), 100)
    assert [claim.cell for claim in rest] == cells[6:]


def test_a_choice_of_what_another_enrolled_since_is_claimed_from(
    opened: Callable[..., Any],
) -> None:
    mine, other = opened(), opened()
    first, second, third = (sample_cell(n, model=f"model-{n}") for n in range(3))
    mine.enroll([first])
    among = Choice([first.fingerprint])
    assert mine.claim(ME, Offer(among=among))[0].cell == first
    other.enroll([second, third])
    assert mine.claim(ME, Offer(among=Choice([second.fingerprint])))[0].cell == second
    among.put(third.fingerprint)
    assert mine.claim(ME, Offer(among=among))[0].cell == third


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


def test_the_servers_clock_counts_and_no_other(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened()
    ledger.enroll([sample_cell(0)])
    monkeypatch.setattr(time, "time", lambda: 0.0)
    (claim,) = ledger.claim(ME, Offer())
    assert ledger.reap() == []
    (record,) = ledger.cells()
    assert 0 < record.expires_in <= 60
    assert len(ledger.renew([claim.lease])) == 1
    assert ledger.events()[0].at > 1.7e9


def test_a_ledger_of_a_newer_schema_is_refused_and_not_touched(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    schema = opened().schema
    postgres.sql(f"update {schema}.meta set value = '99' where key = 'schema'")  # noqa: S608
    with pytest.raises(LedgerTooNew, match=r"its schema is 99, this one knows \d+; upgrade"):
        opened()


def test_a_ledger_whose_tables_are_gone_is_named(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    ledger = opened()
    postgres.sql(f"drop table {ledger.schema}.cell cascade")
    with pytest.raises(LedgerError, match=r"is not whole: .*benchfleet ledger check"):
        ledger.claim(ME, Offer())


def test_closing_ends_the_patience_of_whoever_waits(own_postgres: Postgres, campaign: str) -> None:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    ledger = PostgresLedger(own_postgres.url(), campaign=campaign)
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


@pytest.mark.parametrize("crowd", ["pending", "too large", "waiting", "ended"])
@pytest.mark.parametrize("chosen", [False, True])
def test_a_claim_reads_as_few_rows_however_many_cannot_be_claimed(
    opened: Callable[..., Any], crowd: str, chosen: bool
) -> None:
    ledger = opened()
    many = [sample_cell(n, gpus=8 * (crowd == "too large")) for n in range(3000)]
    few = [sample_cell(n, config="few", gpus=1) for n in range(5)]
    ledger.enroll([*many, *few])
    if crowd in ("waiting", "ended"):
        retry = 1000.0 if crowd == "waiting" else None
        for claim in ledger.claim(ME, Offer(), 300):
            ledger.finish(claim.lease, Outcome(state="failed", retry_in=retry))
    among = Choice(cell.fingerprint for cell in (*many, *few)) if chosen else None
    offer = Offer(gpus=2, among=among)
    ledger.release([claim.lease for claim in ledger.claim(ME, offer)], "to set up what it keeps")
    ledger.record(Event(kind="looked"))
    with ledger._connections.one() as connection:
        before = _blocks(connection)
    (claim,) = ledger.claim(ME, offer)
    assert claim.cell in (*many, *few)
    with ledger._connections.one() as connection:
        assert _blocks(connection) - before < 400


def test_a_claim_walks_through_no_table_where_half_have_ended_and_some_wait_again(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    ledger = opened()
    ledger.enroll([sample_cell(n) for n in range(3000)])
    claims = ledger.claim(ME, Offer(), 1500)
    ledger.finish_all([(claim.lease, SUCCESS) for claim in claims])
    postgres.sql(f"analyze {ledger.schema}.cell; analyze {ledger.schema}.identity")
    offer = Offer(among=Choice(cell.fingerprint for cell in ledger.cells()))
    first, _ = ledger.claim(ME, offer, 2)
    ledger.finish(first.lease, Outcome(state="failed", retry_in=1000.0))
    ledger.release([claim.lease for claim in ledger.claim(ME, offer)], "to learn what waits again")
    scans = (
        "select sum(seq_scan) from pg_stat_all_tables"  # noqa: S608
        f" where schemaname = '{ledger.schema}' and relname in ('cell', 'identity')"
    )
    with ledger._connections.one() as connection:
        _blocks(connection)
        before = postgres.sql(scans)
    assert len(ledger.claim(ME, offer, 3)) == 3
    with ledger._connections.one() as connection:
        _blocks(connection)
        assert postgres.sql(scans) == before


def _blocks(connection: Any) -> int:
    """The pages that this connection's statements looked at in tables and indexes of its schema."""
    connection.execute("select pg_stat_force_next_flush()")
    row = connection.execute(
        "select sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))"
        " from pg_statio_user_tables where schemaname = current_schema()"
    ).fetchone()
    return int(row[0] or 0)
