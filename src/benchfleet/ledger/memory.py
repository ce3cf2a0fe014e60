"""A ledger that lives and ends with its process: for tests, simulations and trying things out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.state import FINAL_STATES, State
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import ClaimLost
from benchfleet.ledger.base import DEFAULT_LEASE_S, PROGRESS_KEPT_S, Ledger, refuse_superseded
from benchfleet.ledger.paths import PathAllocator


@dataclass(kw_only=True)
class _Entry:
    """A cell and what became of it."""

    cell: Cell
    id: str
    path: str
    ordinal: int
    state: State = "pending"
    ready: float = 0.0
    attempt: int = 0
    tries: int = 0
    token: int = 0
    ended_token: int = 0
    runner: str = ""
    expires: float = 0.0
    outcome: Outcome | None = None

    def holds(self, lease: Lease) -> bool:
        return self.state == "running" and self.token == lease.token

    def facts(self) -> dict[str, object]:
        return {"attempt": self.attempt, "token": self.token, "runner": self.runner}


class MemoryLedger(Ledger):
    """The whole contract in one process; nothing is durable."""

    def __init__(
        self, clock: Callable[[], float] = time.time, lease: float = DEFAULT_LEASE_S
    ) -> None:
        self._clock = clock
        self._lease = lease
        self._lock = threading.RLock()
        self._entries: dict[str, _Entry] = {}
        self._pending: dict[str, _Entry] = {}
        self._running: dict[str, _Entry] = {}
        self._paths = PathAllocator()
        self._events: list[Event] = []
        self._progress: dict[str, tuple[float, WorkerProgress]] = {}

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        cells = list(cells)
        with self._lock:
            # so that an enrolment that fails leaves nothing behind
            paths_after = self._paths.copy()
            fresh: dict[str, _Entry] = {}
            for cell in cells:
                if cell.fingerprint not in self._entries and cell.fingerprint not in fresh:
                    fresh[cell.fingerprint] = _Entry(
                        cell=cell,
                        id=cell.id,
                        path=paths_after.allocate(cell, paths.get(cell.fingerprint)),
                        ordinal=len(self._entries) + len(fresh),
                    )
            self._paths = paths_after
            self._entries.update(fresh)
            self._pending.update(fresh)
            changed = 0
            for cell in cells:
                entry = self._entries[cell.fingerprint]
                if entry.state not in FINAL_STATES and _terms(cell) != _terms(entry.cell):
                    changed += 1
                    entry.cell = _with_terms_of(entry.cell, cell)
            if fresh or changed:
                self._append("enrolled", "", {"new": len(fresh), "changed": changed})
        return len(fresh)

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        with self._lock:
            now, claims = self._clock(), list[Claim]()
            for fingerprint in candidates:
                entry = self._pending.get(fingerprint)
                if len(claims) < limit and entry is not None and entry.ready <= now:
                    claims.append(self._take(entry, runner, now))
            return claims

    def _take(self, entry: _Entry, runner: RunnerId, now: float) -> Claim:
        self._move(entry, "running")
        entry.attempt += 1
        entry.token += 1
        entry.runner = runner
        entry.expires = now + self._lease
        self._append("claimed", entry.cell.fingerprint, entry.facts())
        lease = Lease(
            fingerprint=entry.cell.fingerprint,
            attempt=entry.attempt,
            token=entry.token,
            expires_in=self._lease,
        )
        last = entry.outcome
        return Claim(
            lease=lease,
            cell=entry.cell,
            path=entry.path,
            tries=entry.tries,
            retry_of=last if last and last.retry_in is not None else None,
        )

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        renewed = []
        with self._lock:
            for lease in leases:
                entry = self._entries.get(lease.fingerprint)
                if entry is not None and entry.holds(lease):
                    entry.expires = self._clock() + self._lease
                    renewed.append(replace(lease, expires_in=self._lease))
        return renewed

    def report_progress(self, progress: WorkerProgress) -> None:
        with self._lock:
            self._progress[progress.runner] = self._clock(), progress

    def progress(self) -> Sequence[WorkerProgress]:
        with self._lock:
            now = self._clock()
            reports = [replace(one, age=now - at) for at, one in self._progress.values()]
        return [one for one in reports if one.age < PROGRESS_KEPT_S]

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        with self._lock:
            return [self._finish(lease, outcome) for lease, outcome in ended]

    def _finish(self, lease: Lease, outcome: Outcome) -> ClaimLost | None:
        entry = self._entries.get(lease.fingerprint)
        if entry is None:
            return ClaimLost(f"the ledger knows no cell {lease.fingerprint[:8]}")
        name = f"attempt {lease.attempt} of cell {lease.fingerprint[:8]}"
        if entry.ended_token == lease.token and entry.outcome is not None:
            had = entry.outcome
            if (had.state, had.digest) == (outcome.state, outcome.digest):
                return None
            return ClaimLost(f"{name} has ended already, as {had.state}")
        if entry.token != lease.token:
            return ClaimLost(
                f"{name} holds no longer: its token is {lease.token}, the cell's is {entry.token}"
            )
        ready = self._clock() + (outcome.retry_in or 0.0)
        self._move(entry, outcome.state if outcome.retry_in is None else "pending", ready)
        entry.tries += outcome.charged
        entry.ended_token = lease.token
        entry.outcome = outcome
        self._append("finished", lease.fingerprint, {**entry.facts(), "outcome": outcome.to_dict()})
        return None

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        with self._lock:
            for lease in leases:
                entry = self._entries.get(lease.fingerprint)
                if entry is not None and entry.holds(lease):
                    self._append("released", lease.fingerprint, {**entry.facts(), "reason": reason})
                    self._move(entry, "pending")
                    entry.token += 1

    def reap(self) -> Sequence[Fingerprint]:
        with self._lock:
            now = self._clock()
            expired = [entry for entry in self._running.values() if entry.expires <= now]
            for entry in expired:
                self._move(entry, "pending")
                self._append("reaped", entry.cell.fingerprint, entry.facts())
            return [entry.cell.fingerprint for entry in expired]

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        fingerprints: Collection[str] | None = None,
        with_cell: bool = False,
        parts: bool = False,
    ) -> Iterator[CellRecord]:
        selected = None if fingerprints is None else frozenset(fingerprints)
        with self._lock:
            now = self._clock()
            records = [
                _record(entry, now, with_cell)
                for fingerprint, entry in self._entries.items()
                if (states is None or entry.state in states)
                and (
                    fingerprint in selected
                    if selected is not None
                    else parts or not entry.cell.part
                )
            ]
        yield from records

    def record(self, event: Event, *, after: int | None = None) -> int:
        with self._lock:
            if after is not None:
                own = (e.seq for e in reversed(self._events) if e.fingerprint == event.fingerprint)
                refuse_superseded(event.fingerprint, next(own, 0), after)
            entry = self._entries.get(event.fingerprint)
            if entry is not None:
                final = entry.state in FINAL_STATES
                if event.kind == "retry_asked" and final:
                    self._move(entry, "pending", 0.0)
                    entry.tries = 0
                elif event.kind == "cancel_asked" and not final:
                    self._move(entry, "cancelled")
                    entry.token += 1
            return self._append(event.kind, event.fingerprint, dict(event.data))

    def last_event(self) -> int:
        with self._lock:
            return len(self._events)

    def events(
        self,
        since: int = 0,
        fingerprints: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        with self._lock:
            events = self._events[max(0, since) :]
        return [
            event
            for event in events
            if (fingerprints is None or event.fingerprint in fingerprints)
            and (kinds is None or event.kind in kinds)
        ]

    def close(self) -> None:
        """There is nothing to let go of."""

    def _move(self, entry: _Entry, state: State, ready: float | None = None) -> None:
        fingerprint = entry.cell.fingerprint
        self._pending.pop(fingerprint, None)
        self._running.pop(fingerprint, None)
        entry.state = state
        if ready is not None:
            entry.ready = ready
        if state == "pending":
            self._pending[fingerprint] = entry
        elif state == "running":
            self._running[fingerprint] = entry

    def _append(self, kind: str, fingerprint: str, data: dict[str, object]) -> int:
        seq = len(self._events) + 1
        self._events.append(
            Event(kind=kind, fingerprint=fingerprint, data=data, seq=seq, at=self._clock())
        )
        return seq


def _terms(cell: Cell) -> tuple[object, ...]:
    model, outside = cell.model, cell.workload.outside
    location = model.source, model.python
    return cell.need, cell.limits, cell.priority, cell.phase, location, dict(outside)


def _with_terms_of(enrolled: Cell, declared: Cell) -> Cell:
    """The known cell, with what is no part of its identity as the campaign says it now."""
    return replace(
        enrolled,
        model=replace(enrolled.model, source=declared.model.source, python=declared.model.python),
        workload=replace(enrolled.workload, outside=declared.workload.outside),
        need=declared.need,
        limits=declared.limits,
        priority=declared.priority,
        phase=declared.phase,
    )


def _record(entry: _Entry, now: float, with_cell: bool) -> CellRecord:
    running = entry.state == "running"
    return CellRecord(
        fingerprint=entry.cell.fingerprint,
        id=entry.id,
        path=entry.path,
        state=entry.state,
        attempt=entry.attempt,
        tries=entry.tries,
        token=entry.token,
        runner=entry.runner if running else "",
        expires_in=entry.expires - now if running else None,
        ready_in=max(0.0, entry.ready - now) if entry.state == "pending" else 0.0,
        outcome=entry.outcome,
        cell=entry.cell if with_cell else None,
    )
