"""The verbs of the ledger contract over the named statements of SQLite.

Subclasses bring the connection and the transactions: the embedded ledger a file of its own, the
ledger in git its local copy.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.part import is_part_id
from benchfleet.domain.state import STATES, State
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import ClaimLost
from benchfleet.ledger.base import PROGRESS_KEPT_S, Clock, Ledger, refuse_superseded
from benchfleet.ledger.named_queries import Execute
from benchfleet.ledger.serialization import (
    CellSerializer,
    parse_claim,
    parse_event,
    parse_record,
)
from benchfleet.ledger.sqlite.enrolment import SqliteEnrolment


class SqliteBase(Ledger):
    """The ledger contract over a connection that has the statements."""

    def __init__(self, *, clock: Clock, lease: float) -> None:
        self._clock = clock
        self._lease = lease
        self._texts = CellSerializer()

    @abstractmethod
    def _writing(self, *, synced: bool = True) -> AbstractContextManager[Execute]:
        """One transaction that excludes other writers, committed where the block ends well.

        Not `synced`: a power cut may take it back, where that ends everybody who relies on it.
        """

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Execute]:
        """One consistent view, which holds up no writer however long it is read."""

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        with self._writing() as execute:
            enrolment = SqliteEnrolment(execute, self._each, self._texts, paths)
            new, changed = enrolment.enter(cells)
            if new or changed:
                self._append(execute, "enrolled", "", {"new": new, "changed": changed})
        return new

    def _each(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement for many rows of values, in the transaction under way. A ledger that
        never enrols has none."""
        raise NotImplementedError

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        with self._writing(synced=False) as execute:
            now = self._clock()
            fingerprints = json.dumps(list(dict.fromkeys(candidates)))
            rows = execute("claimable", candidates=fingerprints, now=now, limit=limit).fetchall()
            return [self._take(execute, row, runner, now) for row in rows]

    def _take(self, execute: Execute, row: Any, runner: RunnerId, now: float) -> Claim:
        ordinal, fingerprint, path, attempt, tries, token, spec, terms, finished = row
        lease = Lease(
            fingerprint=fingerprint, attempt=attempt + 1, token=token + 1, expires_in=self._lease
        )
        execute(
            "claim_cell",
            ordinal=ordinal,
            attempt=lease.attempt,
            token=lease.token,
            runner=runner,
            expires=now + self._lease,
        )
        self._append(execute, "claimed", fingerprint, _facts(lease, runner), at=now)
        return parse_claim(lease, path=path, tries=tries, spec=spec, terms=terms, finished=finished)

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        fingerprints = json.dumps([lease.fingerprint for lease in leases])
        with self._writing(synced=False) as execute:
            expires = self._clock() + self._lease
            rows = execute("running_cells", fingerprints=fingerprints).fetchall()
            ordinals = {(fingerprint, token): ordinal for ordinal, fingerprint, token in rows}
            renewed_leases = [one for one in leases if (one.fingerprint, one.token) in ordinals]
            renewed = [ordinals[one.fingerprint, one.token] for one in renewed_leases]
            execute("renew", ordinals=json.dumps(renewed), expires=expires)
        return [replace(lease, expires_in=self._lease) for lease in renewed_leases]

    def report_progress(self, progress: WorkerProgress) -> None:
        with self._writing(synced=False) as execute:
            now = self._clock()
            execute("forget_progress", before=now - PROGRESS_KEPT_S)
            execute("report_progress", runner=progress.runner, at=now, data=progress.to_json())

    def progress(self) -> Sequence[WorkerProgress]:
        with self._reading() as execute:
            now = self._clock()
            rows = execute("progress", since=now - PROGRESS_KEPT_S).fetchall()
        reports = [WorkerProgress.from_json(name, data, now - at) for name, at, data in rows]
        return [report for report in reports if report is not None]

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        with self._writing() as execute:
            return [self._finish(execute, lease, outcome) for lease, outcome in ended]

    def _finish(self, execute: Execute, lease: Lease, outcome: Outcome) -> ClaimLost | None:
        """End an attempt, or return why it cannot end."""
        cell = execute("cell_state", fingerprint=lease.fingerprint).fetchone()
        if cell is None:
            return ClaimLost(f"the ledger knows no cell {lease.fingerprint[:8]}")
        ordinal, _, _, token, ended_token, runner, last = cell
        name = f"attempt {lease.attempt} of cell {lease.fingerprint[:8]}"
        if ended_token == lease.token:
            had = json.loads(execute("event", seq=last).fetchone()[0])["outcome"]
            if (had["state"], had["digest"]) == (outcome.state, outcome.digest):
                return None
            return ClaimLost(f"{name} has ended already, as {had['state']}")
        if token != lease.token:
            return ClaimLost(
                f"{name} holds no longer: its token is {lease.token}, the cell's is {token}"
            )
        now, retry = self._clock(), outcome.retry_in
        execute(
            "finish",
            ordinal=ordinal,
            state=outcome.state if retry is None else "pending",
            ready=now + retry if retry else None,
            charged=outcome.charged,
            token=lease.token,
        )
        facts = _facts(lease, runner, outcome=outcome.to_dict())
        self._append(execute, "finished", lease.fingerprint, facts, at=now)
        return None

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        with self._writing() as execute:
            for lease in leases:
                cell = execute("cell_state", fingerprint=lease.fingerprint).fetchone()
                if cell is not None and _holds(cell, lease):
                    execute("release", ordinal=cell[0])
                    facts = _facts(lease, cell[5], reason=reason)
                    self._append(execute, "released", lease.fingerprint, facts)

    def reap(self) -> Sequence[Fingerprint]:
        with self._writing() as execute:
            now = self._clock()
            expired = execute("expired", now=now).fetchall()
            for ordinal, fingerprint, attempt, token, runner in expired:
                execute("reap", ordinal=ordinal)
                facts = {"attempt": attempt, "token": token, "runner": runner}
                self._append(execute, "reaped", fingerprint, facts, at=now)
        return [fingerprint for _, fingerprint, *_ in expired]

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        fingerprints: Collection[str] | None = None,
        with_cell: bool = False,
        parts: bool = False,
    ) -> Iterator[CellRecord]:
        values = {
            "states": json.dumps(list(STATES if states is None else states)),
            "with_cell": with_cell,
        }
        selected = None if fingerprints is None else frozenset(fingerprints)
        with self._reading() as execute:
            now = self._clock()
            # To walk through all in their order is quicker than to look up and sort most of them.
            if selected is None or 2 * len(selected) > execute("last_ordinal").fetchone()[0]:
                rows = execute("cells", **values)
            else:
                rows = execute("cells_of", fingerprints=json.dumps(list(selected)), **values)
            for row in rows:
                if row[0] in selected if selected is not None else parts or not is_part_id(row[1]):
                    yield parse_record(row, now)

    def record(self, event: Event, *, after: int | None = None) -> int:
        with self._writing() as execute:
            if after is not None:
                row = execute("last_event_of", fingerprint=event.fingerprint).fetchone()
                refuse_superseded(event.fingerprint, row[0] if row else 0, after)
            if event.kind == "retry_asked":
                execute("retry", fingerprint=event.fingerprint)
            elif event.kind == "cancel_asked":
                execute("cancel", fingerprint=event.fingerprint)
            return self._append(execute, event.kind, event.fingerprint, event.data)

    def events(
        self,
        since: int = 0,
        fingerprints: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        selected = None if fingerprints is None else frozenset(fingerprints)
        kinds_json = None if kinds is None else json.dumps(list(kinds))
        with self._reading() as execute:
            return [
                parse_event(row)
                for row in execute("events", since=since, kinds=kinds_json)
                if selected is None or row[3] in selected
            ]

    def last_event(self) -> int:
        with self._reading() as execute:
            return int(execute("last_event").fetchone()[0])

    def _append(
        self,
        execute: Execute,
        kind: str,
        fingerprint: str,
        data: Mapping[str, Any],
        *,
        at: float | None = None,
    ) -> int:
        """Append an event; its number."""
        added = execute(
            "add_event",
            at=self._clock() if at is None else at,
            kind=kind,
            fingerprint=fingerprint,
            data=json.dumps(dict(data)),
        )
        return added.lastrowid or 0


def _facts(lease: Lease, runner: str, **more: Any) -> dict[str, Any]:
    """The data of an event of an attempt."""
    return {"attempt": lease.attempt, "token": lease.token, "runner": runner, **more}


def _holds(cell: Any, lease: Lease) -> bool:
    _, state, _, token, *_ = cell
    return bool(state == "running" and token == lease.token)
