"""A ledger whose disk is full is asked again, as long as there is time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from benchfleet.domain.attempt import Lease, Outcome, RunnerId
from benchfleet.errors import ClaimLost, LedgerAway, LedgerFull, LedgerUnreachable
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.events import LedgerAvailable, LedgerDiskFull, LedgerUnavailable
from benchfleet.runner.execution.retrying_ledger import RetryingLedger
from benchfleet.testing import LedgerContract
from benchfleet.testing.claims import claim_any
from benchfleet.testing.clock import FakeClock
from benchfleet.testing.sample_cells import sample_cell

US = RunnerId("us")
BOTH = [sample_cell(number).fingerprint for number in range(2)]


class AskedLedger(MemoryLedger):
    """A ledger that may refuse whatever is asked of it."""

    def _ask(self) -> None:
        raise NotImplementedError

    def finish_all(self, ended):  # type: ignore[no-untyped-def]
        self._ask()
        return super().finish_all(ended)

    def claim(self, runner, offer, limit=1):  # type: ignore[no-untyped-def]
        self._ask()
        return super().claim(runner, offer, limit)

    def release(self, leases, reason):  # type: ignore[no-untyped-def]
        self._ask()
        super().release(leases, reason)

    def renew(self, leases):  # type: ignore[no-untyped-def]
        self._ask()
        return super().renew(leases)

    def reap(self):  # type: ignore[no-untyped-def]
        self._ask()
        return super().reap()


class FullLedger(AskedLedger):
    """A ledger whose disk is full for the next `times` writes."""

    times = 0

    def _ask(self) -> None:
        if self.times:
            self.times -= 1
            raise LedgerFull


class Desk:
    """A patient ledger over a full one, with one cell claimed."""

    def __init__(self) -> None:
        self.full = FullLedger()
        self.ending = threading.Event()
        self.events: list[object] = []
        self.ledger = RetryingLedger(
            self.full, post=self.events.append, ending=self.ending, pause=0
        )
        self.ledger.enroll([sample_cell()])
        (claim,) = claim_any(self.ledger, US)
        self.lease = claim.lease


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_ended_cells_are_finished_once_there_is_room(desk: Desk) -> None:
    desk.full.times = 3
    desk.ledger.finish(desk.lease, Outcome(state="success"))
    assert desk.events == [LedgerDiskFull()] * 3
    assert [record.state for record in desk.ledger.cells()] == ["success"]


def test_a_run_that_ends_waits_for_no_room(desk: Desk) -> None:
    desk.full.times = 3
    desk.ending.set()
    with pytest.raises(LedgerFull):
        desk.ledger.finish(desk.lease, Outcome(state="success"))
    assert desk.full.times == 2


def test_nothing_else_waits_and_nothing_is_raised(desk: Desk) -> None:
    desk.full.times = 4
    assert desk.ledger.renew([desk.lease]) == [desk.lease]
    assert desk.ledger.reap() == []
    assert desk.ledger.claim(US, BOTH) == []
    desk.ledger.release([desk.lease], "the end")
    assert desk.events == [LedgerDiskFull()] * 3
    assert [record.state for record in desk.ledger.cells()] == ["running"]


def test_what_could_not_be_renewed_is_renewed_before_anything_is_taken_back() -> None:
    clock = FakeClock()
    full = FullLedger(clock=clock, lease=60)
    ledger = RetryingLedger(full, post=lambda news: None, ending=threading.Event(), pause=0)
    ledger.enroll([sample_cell(0), sample_cell(1)])
    (claim,) = claim_any(ledger, US)
    full.times = 2
    ledger.renew([claim.lease])
    clock.now += 100
    assert ledger.claim(US, BOTH) == []
    assert ledger.reap() == []
    assert [record.state for record in ledger.cells()] == ["running", "pending"]
    assert len(ledger.claim(US, BOTH)) == 1


def test_a_ledger_that_is_gone_for_other_reasons_is_not_waited_for(desk: Desk) -> None:
    def gone(ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        raise LedgerUnreachable

    desk.full.finish_all = gone  # type: ignore[method-assign]
    with pytest.raises(LedgerUnreachable):
        desk.ledger.finish(desk.lease, Outcome(state="success"))
    assert desk.events == []


class AwayLedger(AskedLedger):
    """A ledger whose server is away while `away` says so; hurried calls alone are made of it."""

    away = hurried = False

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        self.hurried = True
        yield
        self.hurried = False

    def _ask(self) -> None:
        assert self.hurried
        if self.away:
            self.hurried = False
            raise LedgerAway("no answer")

    def events(self, *words, **named):  # type: ignore[no-untyped-def]
        self._ask()
        return super().events(*words, **named)

    def cells(self, **named):  # type: ignore[no-untyped-def]
        for record in super().cells(**named):
            self._ask()
            yield record


def test_a_server_that_is_away_is_reported_once_and_holds_up_nobody_but_what_ended() -> None:
    clock, ending = FakeClock(), threading.Event()
    server = AwayLedger(clock=clock, lease=60)
    output: list[object] = []
    back = threading.Event()

    def post(news: object) -> None:
        output.append(news)
        if news == LedgerAvailable():
            back.set()

    ledger = RetryingLedger(server, post=post, ending=ending, pause=0.001)
    ledger.enroll([sample_cell(0), sample_cell(1)])
    (claim,) = claim_any(ledger, US)
    server.away = True
    assert ledger.claim(US, BOTH) == []
    assert ledger.reap() == []
    assert ledger.renew([claim.lease]) == [claim.lease]
    ledger.release([claim.lease], "the end")
    for ask in (ledger.cells, ledger.events):
        with pytest.raises(LedgerAway, match="no answer"):
            ask()
    assert output == [LedgerUnavailable(why="no answer")]
    clock.now += 100
    finishing = threading.Thread(
        target=lambda: ledger.finish(claim.lease, Outcome(state="success"))
    )
    finishing.start()
    finishing.join(0.05)
    assert finishing.is_alive()
    server.away = False
    assert back.wait(30)
    finishing.join(30)
    assert ledger.reap() == []
    assert [record.state for record in ledger.cells()] == ["success", "pending"]
    assert len(ledger.claim(US, BOTH)) == 1
    ledger.close()


def test_a_server_that_answers_and_takes_nothing_is_back_once() -> None:
    class Refusing(AwayLedger):
        def events(self, *words, **named):  # type: ignore[no-untyped-def]
            return MemoryLedger.events(self, *words, **named)

    server, looks = Refusing(), queue.Queue[LedgerAvailable]()

    def post(news: object) -> None:
        if isinstance(news, LedgerAvailable):
            looks.put(news)

    ledger = RetryingLedger(server, post=post, ending=threading.Event(), pause=0.001)
    ledger.enroll([sample_cell(0)])
    (claim,) = claim_any(ledger, US)
    server.away = True
    refuses = []
    for _ in range(3):
        ledger.renew([claim.lease])
        refuses.append(looks.get(timeout=30).refuses)
    assert refuses == [False, True, True]
    ledger.close()


def test_nobody_waits_for_a_server_that_goes_away_while_its_cells_are_read() -> None:
    server, ending = AwayLedger(), threading.Event()
    ledger = RetryingLedger(server, post=lambda news: None, ending=ending)
    ledger.enroll([sample_cell(0), sample_cell(1)])
    reading = ledger.cells()
    next(reading)
    server.away = True
    with pytest.raises(LedgerAway, match="no answer"):
        next(reading)
    ending.set()
    ledger.close()


def test_a_run_that_serves_no_slot_yet_is_patient_with_its_server() -> None:
    ending, serving = threading.Event(), threading.Event()
    server = AwayLedger()
    ledger = RetryingLedger(server, post=lambda news: None, ending=ending, serving=serving)
    hurried: list[bool] = []
    server._ask = lambda: hurried.append(server.hurried)  # type: ignore[method-assign]
    ledger.enroll([sample_cell(0)])
    for _ in range(2):
        ledger.reap()
        assert ledger.events()
        assert list(ledger.cells())
        serving.set()
    assert hurried == [False] * 3 + [True] * 3
    ledger.close()


def test_a_run_that_serves_no_slot_any_more_asks_a_server_that_was_away() -> None:
    ending, serving = threading.Event(), threading.Event()
    server = AwayLedger()
    ledger = RetryingLedger(server, post=lambda news: None, ending=ending, serving=serving)
    ledger.enroll([sample_cell(0)])
    serving.set()
    ending.set()
    server.away = True
    ledger.release([], "its runner ended")
    with pytest.raises(LedgerAway):
        list(ledger.cells())
    server._ask = lambda: None  # type: ignore[method-assign] # it answers every call
    serving.clear()
    assert len(list(ledger.cells())) == 1
    serving.set()
    assert len(list(ledger.cells())) == 1  # nor is it taken for away from then on
    ledger.close()


def test_a_run_that_ends_waits_for_no_server() -> None:
    server, ending = AwayLedger(), threading.Event()
    ledger = RetryingLedger(server, post=lambda news: None, ending=ending, pause=0.001)
    ledger.enroll([sample_cell(0)])
    (claim,) = claim_any(ledger, US)
    server.away = True
    ending.set()
    with pytest.raises(LedgerAway):
        ledger.finish(claim.lease, Outcome(state="success"))
    ledger.close()


class TestPatientLedger(LedgerContract):
    """With room it is as every ledger."""

    def make_ledger(self, clock: Callable[[], float], lease: float) -> RetryingLedger:
        made = MemoryLedger(clock=clock, lease=lease)
        return RetryingLedger(made, post=lambda news: None, ending=threading.Event())
