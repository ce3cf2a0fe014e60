"""Feeds the read model of a campaign from its ledger, while somebody looks.

One thread reads one ledger. It asks for new events once a second, and for the progress of runners
and the leases of running cells every ten seconds. Without a viewer it asks nothing.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from benchfleet.dashboard.model import LISTED_KINDS, ReadModel
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import duration
from benchfleet.domain.part import FOLLOWED, SPLIT
from benchfleet.domain.worker_progress import WorkerProgress, aged, with_local_reports
from benchfleet.errors import BenchfleetError, LedgerAbsent
from benchfleet.ledger.base import Ledger
from benchfleet.orders.slots import runners
from benchfleet.runs.follow import local_progress
from benchfleet.study import Study

EVENTS_INTERVAL_S = 1.0
GIT_INTERVAL_S = 5.0  # of a ledger in a git repository; a hosted one allows less, and says so
HOSTED_INTERVAL_S = 30.0
PROGRESS_INTERVAL_S = 10.0
RETRY_INTERVAL_S = 2.0  # while the ledger is away
VIEWER_TIMEOUT_S = 20.0  # seconds after its last request for which a viewer counts
CALL_TIMEOUT_S = 10.0  # of one call to the ledger
FIRST_READ_TIMEOUT_S = 60.0
RECENT_EVENTS = 5_000  # before the load, that are read for what happened last


class Watcher:
    """The thread that reads one campaign's ledger."""

    def __init__(self, study: Study, model: ReadModel) -> None:
        self._study, self.model = study, model
        self._ledger: Ledger | None = None
        self.was_there = self._is_gone = (
            False  # the ledger, at an earlier round and at the last one
        )
        self._has_paused = False  # since the last round nobody looked for a while
        self._streams = 0
        self._seen_at = -VIEWER_TIMEOUT_S  # monotonic: the last request
        self._wake, self._read = threading.Event(), threading.Condition()
        self._reads = 0  # finished rounds
        self._round_began: float | None = None  # monotonic; None between rounds
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._progress_at = -PROGRESS_INTERVAL_S
        self._reports: Sequence[WorkerProgress] = ()  # of the ledger
        self._had_local = False  # whether runs of this machine were shown
        self.queries = 0  # calls to the ledger so far
        self._lock = threading.Lock()

    def view(self, first_read_s: float = FIRST_READ_TIMEOUT_S) -> ReadModel:
        """Count a viewer for a while, and return the model. Waits for what is older than a few
        seconds to be read again, but never long for a ledger that is away. The first read may take
        longer than `first_read_s`; then the model is empty."""
        self._seen_at = time.monotonic()
        self._start()
        self._notice_silence()
        freshness = self.model.freshness
        if not freshness.read_at and not freshness.error:
            self._await_read(first_read_s)
        elif not self._is_watching_now():
            self._await_read(CALL_TIMEOUT_S)
        return self.model

    def _notice_silence(self) -> None:
        """Say that the ledger does not answer, if a read hangs; the first one may take long."""
        began = self._round_began
        if began is None or not self.model.freshness.read_at:
            return
        if (silent := time.monotonic() - began) > CALL_TIMEOUT_S:
            self.model.failed(f"no answer for {duration(silent)}")

    def enter(self) -> None:
        """A stream is open."""
        with self._lock:
            self._streams += 1
        self._start()

    def leave(self) -> None:
        """A stream ended."""
        with self._lock:
            self._streams -= 1
        self._seen_at = time.monotonic()

    def refresh(self) -> None:
        """Read again at once, after an order."""
        self._seen_at = time.monotonic()
        self._start()
        self._await_read(CALL_TIMEOUT_S)

    def ask_to_stop(self) -> None:
        """Let the thread close the ledger and end."""
        self._stopped = True
        self._wake.set()

    def join(self, seconds: float) -> None:
        """Wait for that; a thread in a long read ends with the process."""
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def has_viewer(self) -> bool:
        return self._streams > 0 or time.monotonic() - self._seen_at < VIEWER_TIMEOUT_S

    def _is_watching_now(self) -> bool:
        limit = 2 * self._interval() + 1.0
        return bool(self.model.freshness.error) or (
            time.time() - self.model.freshness.read_at < limit
        )

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
                self._thread.start()

    def _await_read(self, seconds: float) -> None:
        with self._read:
            target = self._reads + 1
            self._wake.set()
            self._read.wait_for(lambda: self._reads >= target or self._stopped, seconds)

    def _interval(self) -> float:
        if self._ledger is None:
            return EVENTS_INTERVAL_S
        if self._ledger.hosted:
            return HOSTED_INTERVAL_S
        return GIT_INTERVAL_S if self._ledger.stores_results else EVENTS_INTERVAL_S

    def _watch(self) -> None:
        while not self._stopped:
            if not self.has_viewer:
                self._has_paused = True
                self._wake.wait(1.0)
                if self._stopped or (not self.has_viewer and not self._wake.is_set()):
                    continue
            self._wake.clear()
            began = self._round_began = time.monotonic()
            pause = self._interval()
            try:
                self._round()
                self.model.succeeded(self._ledger.read_age() if self._ledger else 0.0)
            except Exception as error:  # noqa: BLE001 - viewers see it, and the next round may succeed
                expected = isinstance(error, (BenchfleetError, OSError))
                text = str(error) if expected else f"{type(error).__name__}: {error}"
                self.model.failed(text.partition("\n")[0])
                pause = RETRY_INTERVAL_S
                self._close()
            self._round_began = None
            with self._read:
                self._reads += 1
                self._read.notify_all()
            self._wake.wait(max(0.0, pause - (time.monotonic() - began)))
        self._close()

    def _round(self) -> None:
        if self._ledger is None:
            self._open()
            if self._ledger is None:
                return
        with self._ledger.within(CALL_TIMEOUT_S):
            self._notice_another(self._ledger)
            self._read_events(self._ledger)
            self._read_progress(self._ledger)

    def _open(self) -> None:
        """Open the ledger and take the campaign as it is. Raises LedgerAbsent for a ledger that was
        read before and is gone."""
        ledger = self._study.open_existing_ledger()
        self.queries += 1
        if ledger is None:
            if self.was_there:
                self._is_gone = True
                raise LedgerAbsent(f"{self._study.ledger_text} is not there any more")
            if not self.model.rows:
                self.model.load(((cell, None) for cell in self._study.cells()), ())
            return
        self._ledger, self.was_there = ledger, True
        last = ledger.last_event()
        self.queries += 4
        if not self.model.rows or self._is_gone or last < self.model.last_event:
            self._load(ledger, last)
        self._is_gone = self._has_paused = False

    def _notice_another(self, ledger: Ledger) -> None:
        """Take the campaign again if another ledger came to the place of this one while nobody
        looked."""
        if self._has_paused:
            self._has_paused = False
            self.queries += 1
            if (last := ledger.last_event()) < self.model.last_event:
                self._load(ledger, last)

    def _load(self, ledger: Ledger, last: int) -> None:
        self.model.load(self._cells(ledger), ledger.events(kinds=LISTED_KINDS))
        self.model.last_event = last
        recent = ledger.events(max(0, last - RECENT_EVENTS))
        self.model.take_recent([event for event in recent if event.seq <= last])
        if whole := {event.fingerprint for event in ledger.events(kinds={SPLIT})}:
            self.model.take_splits(ledger.events(fingerprints=whole, kinds=FOLLOWED))
            self._read_parts(ledger, self.model.split_cells.unread)

    def _cells(self, ledger: Ledger) -> Iterator[tuple[Cell, CellRecord | None]]:
        """The cells of the campaign, counted while they are read."""
        history = self._study.race(ledger)
        if self._study.campaign.file is None:
            records_with_cell = history.as_skipped([*ledger.cells(with_cell=True)])
            for number, record in enumerate(records_with_cell):
                if record.cell is not None:
                    self.model.reading(number + 1)
                    yield record.cell, record
            return
        records = {
            str(record.fingerprint): record for record in history.as_skipped([*ledger.cells()])
        }
        for number, cell in enumerate(self._study.cells()):
            self.model.reading(number + 1)
            yield cell, records.get(str(cell.fingerprint))

    def _read_events(self, ledger: Ledger) -> None:
        events = ledger.events(self.model.last_event)
        self.queries += 1
        if any(event.kind == "enrolled" and event.data.get("new") for event in events):
            self._load(ledger, ledger.last_event())  # new cells, and the paths that they got
            return
        self.model.apply(events)
        self._read_parts(ledger, self.model.split_cells.unread)

    def _read_parts(self, ledger: Ledger, names: Collection[str]) -> list[CellRecord]:
        """Read the records of parts of split cells; those that run."""
        if not names:
            return []
        records = list(ledger.cells(fingerprints=names))
        self.queries += 1
        self.model.take_parts(records)
        return [record for record in records if record.state == "running"]

    def _read_progress(self, ledger: Ledger) -> None:
        local = local_progress(self._study)
        now = time.monotonic()
        running = None
        if now - self._progress_at >= PROGRESS_INTERVAL_S:
            self._progress_at = now
            self._reports = ledger.progress()
            running = list(ledger.cells(states=["running"]))
            self.queries += 2
            running += self._read_parts(ledger, list(self.model.split_cells.parts))
        killed = self._killed()
        if local or self._had_local or killed or running is not None:
            self._had_local = bool(local)
            reports = aged(self._reports, now - self._progress_at)
            began = self.model.fleet.runners
            every = with_local_reports(reports, local, began, socket.gethostname())
            self.model.take_progress(every, running, killed)

    def _killed(self) -> set[str]:
        """The runners of this machine that are gone since the last round, as `benchfleet slots`
        sees it."""
        fleet = self.model.fleet
        over = fleet.ended.keys() | fleet.killed
        began = {name: event for name, event in fleet.runners.items() if name not in over}
        return began.keys() - {one.id for one in runners(began.values())}

    def _close(self) -> None:
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            with suppress(BenchfleetError, OSError):  # it is away
                ledger.close()
