"""A ledger that retries while its disk is full or its server is away."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.state import State
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import ClaimLost, LedgerAway, LedgerError, LedgerFull
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.forwarding import ForwardingLedger
from benchfleet.runner.events import LedgerAvailable, LedgerDiskFull, LedgerUnavailable
from benchfleet.runner.outage import Outage

PAUSE_S = 1.0  # seconds between tries
_MAX_PAUSE_S = 30.0  # between looks at a server that answers and refuses, again and again
_RECORD_TIMEOUT_S = 2.0  # for an event that would be lost
_READ_BATCH = 1000  # cells that are read at once
T = TypeVar("T")


class RetryingLedger(ForwardingLedger):
    """Retries calls to another ledger while its disk is full or its server is away.

    A finish waits until `ending` is set; then it raises `LedgerFull` or `LedgerAway`. Meanwhile
    nothing is claimed or reaped, nor before leases that could not be renewed are renewed. Leases
    that cannot be released expire. While the server is away `cells`, `events` and `record` raise
    `LedgerAway` at once. While `serving` is not set, before a run and at its end, all calls wait.

    It posts `LedgerDiskFull` each time, `LedgerUnavailable` once, and `LedgerAvailable` once the
    server answers again, from any thread. `outage` hears of each call that finds the server away.
    `ending`, `thread` and `clock` can be a simulation's own.
    """

    def __init__(
        self,
        inside: Ledger,
        *,
        post: Callable[[LedgerDiskFull | LedgerUnavailable | LedgerAvailable], None],
        ending: threading.Event,
        pause: float = PAUSE_S,
        serving: threading.Event | None = None,
        thread: Callable[..., threading.Thread] = threading.Thread,
        outage: Outage | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inside)
        self._post, self._ending, self._pause = post, ending, pause
        self._serving, self._thread = serving, thread
        self._outage, self._clock = outage or Outage(), clock
        self._unrenewed: Sequence[Lease] = ()  # leases that could not be renewed
        self._lock = threading.Lock()
        self._away: LedgerAway | None = None
        self._waiter: threading.Thread | None = None

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        while True:
            try:
                return self._call(lambda: self.inside.finish_all(ended), write=True)
            except LedgerFull:
                self._post(LedgerDiskFull())
                if self._ending.wait(self._pause):
                    raise
            except LedgerAway:
                self.inside.keep(ended)  # the call may not have reached the ledger
                if self._ending.wait(self._pause):
                    raise

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        with contextlib.suppress(LedgerFull, LedgerAway):
            self._call(lambda: self.inside.release(leases, reason), write=bool(leases))

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        return self._after_renewing(lambda: self.inside.claim(runner, candidates, limit))

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        try:
            renewed = self._call(lambda: self.inside.renew(leases), write=bool(leases))
        except (LedgerFull, LedgerAway) as error:
            self._unrenewed = leases
            if isinstance(error, LedgerFull):
                self._post(LedgerDiskFull())
            return leases  # they hold until they are taken back
        self._unrenewed = ()
        return renewed

    def report_progress(self, progress: WorkerProgress) -> None:
        with contextlib.suppress(LedgerFull, LedgerAway):  # the next heartbeat brings a newer one
            self._call(lambda: self.inside.report_progress(progress))

    def progress(self) -> Sequence[WorkerProgress]:
        return self._call(self.inside.progress)

    def _after_renewing(self, ask: Callable[[], Sequence[T]]) -> Sequence[T]:
        """What it answers, after leases that could not be renewed before are renewed; nothing where
        it cannot be asked now."""
        try:
            if behind := self._unrenewed:
                self._call(lambda: self.inside.renew(behind), write=True)
                self._unrenewed = ()
            if answer := self._call(ask):
                self._outage.succeeded(write=True)
            return answer
        except LedgerFull:
            self._post(LedgerDiskFull())
        except LedgerAway:
            pass
        return []

    def reap(self) -> Sequence[Fingerprint]:
        return self._after_renewing(self.inside.reap)

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        def ask() -> int:
            return self.inside.enroll(cells, paths=paths)

        return self._call(ask, seconds=_RECORD_TIMEOUT_S, write=True)

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        fingerprints: Collection[str] | None = None,
        with_cell: bool = False,
        parts: bool = False,
    ) -> Iterator[CellRecord]:
        rows = iter(
            self.inside.cells(
                states=states, fingerprints=fingerprints, with_cell=with_cell, parts=parts
            )
        )
        return self._pages(self._call(lambda: list(islice(rows, 1))), rows)

    def _pages(
        self, first: Sequence[CellRecord], rows: Iterator[CellRecord]
    ) -> Iterator[CellRecord]:
        some = first
        while some:
            yield from some
            some = self._call(lambda: list(islice(rows, _READ_BATCH)))

    def record(self, event: Event, *, after: int | None = None) -> int:
        def ask() -> int:
            return self.inside.record(event, after=after)

        return self._call(ask, seconds=_RECORD_TIMEOUT_S, write=True)

    def events(
        self,
        since: int = 0,
        fingerprints: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        return self._call(lambda: self.inside.events(since, fingerprints, kinds))

    def last_event(self) -> int:
        return self._call(self.inside.last_event)

    def close(self) -> None:
        self.inside.close()
        if self._waiter is not None:
            self._waiter.join()

    # While the server is away

    def _call(self, ask: Callable[[], T], *, seconds: float = 0.0, write: bool = False) -> T:
        """What the ledger answers without being waited for. Raises LedgerAway."""
        waits = self._serving is not None and not self._serving.is_set()
        if not waits and (error := self._away) is not None:
            raise LedgerAway(str(error)) from error
        began = self._clock()
        try:
            if waits:
                answer = ask()
                if self._ending.is_set():  # nobody else looks whether it is back
                    self._away = None
            else:
                with self.inside.within(seconds):
                    answer = ask()
        except LedgerAway as error:
            self._outage.failed(began, self._clock(), write=write)
            self._mark_unavailable(error)
            raise
        self._outage.succeeded(write=write)
        return answer

    def _mark_unavailable(self, error: LedgerAway) -> None:
        with self._lock:
            if self._away is not None:
                return
            self._away = error
        self._post(LedgerUnavailable(why=str(error)))
        self._waiter = self._thread(target=self._wait, name="ledger", daemon=True)
        self._waiter.start()

    def _wait(self) -> None:
        """Ask until it answers, in a thread of its own: a cut line may take long to tell."""
        pause = min(self._pause * 2**self._outage.answers, max(self._pause, _MAX_PAUSE_S))
        while not self._ending.wait(pause):
            began = self._clock()
            try:
                with self.inside.within(0.0):
                    self.inside.events(since=2**62)
            except LedgerAway:
                self._outage.failed(began, self._clock(), write=False)
                continue
            except LedgerError:
                pass  # it answers; the next caller gets the error
            self._outage.succeeded(write=False)
            self._away = None
            self._post(LedgerAvailable(refuses=self._outage.answers > 1))
            return
