"""The read model of one campaign: all that pages, API and streams show, kept up to date in memory.

Only the watcher writes it, in one thread; readers take what they need under its lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchfleet.dashboard.fleet import FLEET_KINDS, Fleet
from benchfleet.dashboard.freshness import Freshness
from benchfleet.dashboard.rows import (
    CHANGING_EVENTS,
    RESULT_EVENTS,
    SHOWN_STATES,
    Row,
    apply_event,
    row_of,
    show_parts,
)
from benchfleet.dashboard.split_cells import SplitCells
from benchfleet.dashboard.tiles import Tile, count
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.phase import GATE_EVENTS, GateDecision, Phase, newest_decisions
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.ledger.base import DEFAULT_LEASE_S

MAX_KEPT_EVENTS = 2_000  # of the newest, for the pages that show what happened
MAX_KEPT_CHANGES = 20_000  # changes of cells that a stream can continue from
CELLS_PER_NOTICE = 2_000  # that are read between two messages of how many they are
AXES = ("model", "config", "benchmark", "subset")
LISTED_KINDS = frozenset({*FLEET_KINDS, *GATE_EVENTS})


@dataclass(frozen=True, slots=True)
class Change:
    """A cell that came to another state."""

    version: int
    index: int
    state: str


class ReadModel:
    """The cells of a campaign with their totals, and what happened last."""

    def __init__(
        self, name: str, phases: Sequence[Phase] = (), lease: float = DEFAULT_LEASE_S
    ) -> None:
        self.name, self.phases, self.lease = name, phases, lease
        self.lock = threading.RLock()
        self.rows: list[Row] = []
        self.by_fingerprint: dict[str, Row] = {}
        self.by_id: dict[str, Row] = {}
        self.tiles: dict[tuple[str, str, str], Tile] = {}
        self.counts: dict[str, int] = {}
        self.running: dict[str, Row] = {}  # by fingerprint
        self.leases: dict[str, float] = {}  # fingerprint → when its lease ends, our monotonic clock
        self.progress: Sequence[WorkerProgress] = ()
        self.progress_at = 0.0  # monotonic
        self.decisions: Mapping[str, GateDecision] = {}
        self.fleet = Fleet()
        self.split_cells = SplitCells()
        self.events: deque[Event] = deque(maxlen=MAX_KEPT_EVENTS)
        self.changes: deque[Change] = deque(maxlen=MAX_KEPT_CHANGES)
        self.cells_read = 0  # so far, while the ledger is read for the first time
        self.pairs: dict[tuple[str, str], Tile] = {}  # tiles added up by model and config
        self.axes: dict[str, list[str]] = {axis: [] for axis in AXES}  # the names on each axis
        self.results_version = 0  # grows when results or their cost change
        self.version = 0  # grows with every batch of changes
        self.epoch = f"{time.time_ns():x}"  # another one after each load
        self.last_event = 0
        self.freshness = Freshness()
        self._listeners: list[Callable[[], None]] = []

    # Writing, by the watcher alone

    def load(
        self, cells: Iterable[tuple[Cell, CellRecord | None]], listed: Iterable[Event]
    ) -> None:
        """Take a campaign as it is now: its cells with their records, and what was recorded of
        runners and gates."""
        rows: list[Row] = []
        running: list[CellRecord] = []
        for cell, record in cells:
            rows.append(row_of(len(rows), cell, record))
            if record is not None and record.state == "running":
                running.append(record)
        now = time.monotonic()
        with self.lock:
            self.rows = rows
            self.by_fingerprint = {row.fingerprint: row for row in rows}
            self.by_id = {row.id: row for row in rows}
            self.counts = dict.fromkeys(SHOWN_STATES, 0)
            self.tiles, self.pairs, self.running = {}, {}, {}
            for row in rows:
                self._add(row).rows.append(row)
                self.pairs[row.model, row.config].rows.append(row)
            self.axes = {
                axis: sorted({getattr(tile, axis) for tile in self.tiles.values()} - {""})
                for axis in AXES
            }
            self.leases = {str(one.fingerprint): now + (one.expires_in or 0.0) for one in running}
            self.events.clear()
            self.changes.clear()
            self.fleet, self.split_cells, self.decisions = Fleet(), SplitCells(), {}
            self.split_cells.take_tokens(running)
            self.version += 1
            self.epoch = f"{time.time_ns():x}"
            self._list(listed)
        self._announce()

    def apply(self, events: Sequence[Event]) -> None:
        """Bring the cells to what these events say, oldest first."""
        if not events:
            return
        with self.lock:
            self.version += 1
            changed: dict[int, Row] = {}
            for event in events:
                row = self.by_fingerprint.get(event.fingerprint)
                if row is not None and event.kind in CHANGING_EVENTS:
                    self._change(row, partial(apply_event, event=event))
                    changed[row.index] = row
                if event.kind == "claimed":  # the new lease is yet to be read
                    self.leases.pop(event.fingerprint, None)
                self.fleet.take_sign(event)
                self.fleet.take_work(event)
                whole = self.by_fingerprint.get(self.split_cells.take(event))
                if whole is not None:
                    self._show_parts(whole)
                    changed[whole.index] = whole
            self.changes.extend(
                Change(self.version, row.index, row.state) for row in changed.values()
            )
            self.events.extend(events)
            self._list(event for event in events if event.kind in LISTED_KINDS)
            self.last_event = max(self.last_event, events[-1].seq)
            self.results_version += any(event.kind in RESULT_EVENTS for event in events)
        self._announce()

    def take_recent(self, events: Sequence[Event]) -> None:
        """Take the events before the load: they date the rows, and fill what happened last."""
        with self.lock:
            if events:
                self.fleet.read_since = events[0].at
            for event in events:
                row = self.by_fingerprint.get(event.fingerprint)
                if row is not None and event.kind in CHANGING_EVENTS:
                    row.changed_at = event.at
                self.fleet.take_sign(event)
                self.fleet.take_work(event)
            self.events.extend(events)

    def take_splits(self, events: Iterable[Event]) -> None:
        """Take the events before the load by which cells were split."""
        with self.lock:
            for event in events:
                self.split_cells.take(event)

    def take_parts(self, records: Iterable[CellRecord]) -> None:
        """Take what the ledger has of the parts of split cells."""
        with self.lock:
            self.version += 1
            for name in self.split_cells.take_records(records):
                if (whole := self.by_fingerprint.get(name)) is not None:
                    self._show_parts(whole)
                    self.changes.append(Change(self.version, whole.index, whole.state))
        self._announce()

    def take_progress(
        self,
        progress: Sequence[WorkerProgress],
        running: Iterable[CellRecord] | None,
        killed: Iterable[str] = (),
    ) -> None:
        """Take what runners report, the leases of running cells where they were read, and which
        runners of this machine are seen to be gone now."""
        now = time.monotonic()
        with self.lock:
            self.progress, self.progress_at = progress, now
            self.fleet.killed.update(killed)
            if running is not None:
                self.leases = {str(r.fingerprint): now + (r.expires_in or 0.0) for r in running}
            self.version += 1
        self._announce()

    def succeeded(self, store_age: float) -> None:
        """The ledger was read."""
        before = self.freshness
        self.freshness = Freshness(read_at=time.time(), store_age=store_age)
        if before.error or not before.read_at:
            with self.lock:
                self.version += 1  # pages that said so are made again
            self._announce()

    def reading(self, cells: int) -> None:
        """So many cells were read, of a ledger that is read for the first time."""
        self.cells_read = cells
        if cells % CELLS_PER_NOTICE == 0:
            self._announce()

    def failed(self, error: str) -> None:
        """The ledger could not be read."""
        since = self.freshness.failing_since or time.time()
        self.freshness = replace(self.freshness, error=error, failing_since=since)
        with self.lock:
            self.version += 1
        self._announce()

    # Reading

    @property
    def results(self) -> str:
        """Another text after each event that changes results or what they cost."""
        return f"{self.epoch}.{self.results_version}"

    def changes_since(self, version: int, epoch: str) -> list[Change] | None:
        """The changes after a version; None where they are not known any more."""
        with self.lock:
            if epoch != self.epoch or version > self.version:
                return None
            oldest = self.changes[0].version if len(self.changes) == MAX_KEPT_CHANGES else 0
            if oldest > version + 1:
                return None
            return [change for change in self.changes if change.version > version]

    def lease_silence(self, name: str) -> float:
        """Seconds since the lease of a running cell or part, by its fingerprint, was last renewed,
        once it has expired; 0 while it is alive, or was when the ledger was read last."""
        now = time.monotonic() - self.freshness.unknown_seconds
        over = now - self.leases.get(name, now)
        return over + self.lease if over > 0 else 0.0

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener after each change, from the watcher's thread; returns what ends it."""
        with self.lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self.lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    # Parts

    def _announce(self) -> None:
        with self.lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def _add(self, row: Row) -> Tile:
        self.counts[row.state] = self.counts.get(row.state, 0) + 1
        tile = self.tiles.get(row.group)
        if tile is None:
            tile = Tile(row.model, row.config, row.label, row.benchmark, row.subset)
            self.tiles[row.group] = tile
        pair = self.pairs.get((row.model, row.config))
        if pair is None:
            pair = Tile(row.model, row.config, "", "", "")
            self.pairs[row.model, row.config] = pair
        count(row, 1, tile, pair)
        if row.state == "running":
            self.running[row.fingerprint] = row
        return tile

    def _change(self, row: Row, change: Callable[[Row], None]) -> None:
        """Change a row, and all totals that it is in."""
        self._remove(row)
        change(row)
        self._add(row)
        row.version = self.version

    def _show_parts(self, whole: Row) -> None:
        parts = self.split_cells.parts_of(whole.fingerprint)
        self._change(whole, partial(show_parts, parts=parts))

    def _remove(self, row: Row) -> None:
        self.counts[row.state] -= 1
        count(row, -1, self.tiles[row.group], self.pairs[row.model, row.config])
        self.running.pop(row.fingerprint, None)

    def _list(self, events: Iterable[Event]) -> None:
        gates = []
        for event in events:
            self.fleet.take(event)
            if event.kind in GATE_EVENTS:
                gates.append(event)
        if gates:
            self.decisions = {**self.decisions, **newest_decisions(gates)}
