"""The ledger of a fleet: a schema of its own in a PostgreSQL database, for all who reach it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from psycopg import Connection

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.phase import GATE_EVENTS
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.domain.state import STATES, State
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import ClaimLost
from benchfleet.ledger.addresses import display_url, schema_name
from benchfleet.ledger.base import DEFAULT_LEASE_S, PROGRESS_KEPT_S, Clock, refuse_superseded
from benchfleet.ledger.call_timeout import CallTimeout
from benchfleet.ledger.postgres.bulk_load import enter, rows_of_each
from benchfleet.ledger.postgres.claim import Claimants, claim_of
from benchfleet.ledger.postgres.connections import RETRY_TIMEOUT_S, Connections
from benchfleet.ledger.postgres.discovery import campaigns_in
from benchfleet.ledger.postgres.enrolment import PostgresEnrolment
from benchfleet.ledger.postgres.finish import finish_row, first_of_each, refusal
from benchfleet.ledger.postgres.listener import Listener
from benchfleet.ledger.postgres.queries import run
from benchfleet.ledger.postgres.read import last_event, one_view, read_cells, read_events
from benchfleet.ledger.postgres.schema import prepare
from benchfleet.ledger.serialization import CellSerializer
from benchfleet.ledger.table_copy import CopyableLedger, Row, Tables

_EFFECTS = {"retry_asked": "retry", "cancel_asked": "cancel"}  # the statements of these events
_WAKING = frozenset({"enrolled", "retry_asked", *GATE_EVENTS})  # may let a runner claim, or end


class PostgresLedger(CopyableLedger):
    """A ledger in the database at `url`, made where there is none; without `create`, none raises
    `LedgerAbsent`.

    A call whose connection breaks is made again over another one for `timeout` seconds: a finish
    that went through is then silent, and the lease of a claim that did runs out.
    """

    multi_host = True

    def __init__(
        self,
        url: str,
        *,
        campaign: str,
        clock: Clock | None = None,
        lease: float = DEFAULT_LEASE_S,
        timeout: float = RETRY_TIMEOUT_S,
        create: bool = True,
    ) -> None:
        self.label, self.schema = display_url(url), schema_name(campaign)
        self._clock, self._lease = clock, lease
        self._call_timeout = limit = CallTimeout()
        address = url, self.label, self.schema
        self._connections = Connections(*address, timeout=timeout, call_timeout=limit)
        # A renewal never waits behind other calls, and in time for the next one.
        self._renewing = Connections(*address, timeout=lease / 5, call_timeout=limit)
        self._texts, self._claimants = CellSerializer(), Claimants()
        self._listeners: list[Listener] = []
        names = {"schema": self.schema, "campaign": campaign, "label": self.label}
        try:
            self._connections.check()
            self._connections.with_retry(
                lambda connection: prepare(connection, create=create, **names)
            )
        except BaseException:
            self.close()
            raise

    @classmethod
    def campaigns(cls, url: str) -> Sequence[str]:
        """The campaigns whose ledgers are in the database, as far as we may look."""
        return campaigns_in(url)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._connections.close()
        self._renewing.close()

    def within(self, seconds: float) -> AbstractContextManager[None]:
        return self._call_timeout.within(seconds)

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        declared = list(cells)  # it may have to be asked again

        def enrolled(connection: Connection) -> int:
            with connection.transaction():
                enrolment = PostgresEnrolment(connection, self._texts, paths)
                new, changed = enrolment.enter(declared)
                if new or changed:
                    data = {"new": new, "changed": changed}
                    self._append(connection, Event(kind="enrolled", data=data))
            return new

        return self._connections.with_retry(enrolled)

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        once = json.dumps(list(dict.fromkeys(candidates)))
        values = {"runner": runner, "candidates": once, "limit": limit, "lease": self._lease}
        claims = [claim_of(row, self._lease) for row in self._rows("claim", **values)]
        self._claimants.add(runner, claims)
        return claims

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        values = {"lease": self._lease, "now": self._now(), "leases": self._listed(leases)}
        rows = self._renewing.with_retry(lambda one: run(one, "renew", **values).fetchall())
        renewed = set(rows)
        return [
            replace(lease, expires_in=self._lease)
            for lease in leases
            if (lease.fingerprint, lease.token) in renewed
        ]

    def report_progress(self, progress: WorkerProgress) -> None:
        values = {"runner": progress.runner, "data": progress.to_json(), "max_age": PROGRESS_KEPT_S}
        values["now"] = self._now()
        self._renewing.with_retry(lambda one: run(one, "report_progress", **values))

    def progress(self) -> Sequence[WorkerProgress]:
        rows = self._rows("progress", max_age=PROGRESS_KEPT_S)
        reports = [WorkerProgress.from_json(runner, data, age) for runner, age, data in rows]
        return [report for report in reports if report is not None]

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        rows = [
            finish_row(position, lease, outcome, self._claimants)
            for position, (lease, outcome) in first_of_each(ended)
        ]
        done = {position for position, _ in self._rows("finish", ended=json.dumps(rows))}
        refused: list[ClaimLost | None] = [None] * len(ended)
        if remaining_positions := [
            position for position in range(len(ended)) if position not in done
        ]:
            fingerprints = [ended[position][0].fingerprint for position in remaining_positions]
            cells = {
                name: cell
                for name, *cell in self._rows("ended_attempts", fingerprints=fingerprints)
            }
            for position in remaining_positions:
                lease, outcome = ended[position]
                refused[position] = refusal(lease, outcome, cells.get(lease.fingerprint))
        self._claimants.forget(lease for lease, _ in ended)
        return refused

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        self._rows("release", reason=json.dumps(reason), leases=self._listed(leases))
        self._claimants.forget(leases)

    def reap(self) -> Sequence[Fingerprint]:
        return [fingerprint for fingerprint, _ in self._rows("reap")]

    def record(self, event: Event, *, after: int | None = None) -> int:
        def recorded(connection: Connection) -> int:
            with connection.transaction():
                if after is not None:
                    run(connection, "lock_subject", fingerprint=event.fingerprint)
                    ((last,),) = run(connection, "last_event_of", fingerprint=event.fingerprint)
                    refuse_superseded(event.fingerprint, last, after)
                if event.kind in _EFFECTS:
                    run(connection, _EFFECTS[event.kind], fingerprint=event.fingerprint)
                return self._append(connection, event)

        return self._connections.with_retry(recorded)

    def events(
        self,
        since: int = 0,
        fingerprints: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        return read_events(self._connections, since, fingerprints, kinds)

    def last_event(self) -> int:
        return last_event(self._connections)

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        fingerprints: Collection[str] | None = None,
        with_cell: bool = False,
        parts: bool = False,
    ) -> Iterator[CellRecord]:
        selected = STATES if states is None else states
        return read_cells(self._connections, self._clock, selected, fingerprints, with_cell, parts)

    def listen(self, changed: Callable[[], None]) -> None:
        self._listeners.append(Listener(self._connections, self.schema, changed))

    @contextmanager
    def tables(self) -> Iterator[Iterator[tuple[str, Iterable[Row]]]]:
        with one_view(self._connections) as connection:
            yield rows_of_each(connection)

    def fill(self, tables: Tables, *, seen: ProgressCallback = ignore_progress) -> None:
        with self._connections.borrow(lambda connection: connection) as connection:
            enter(connection, self.label, tables)  # not asked again: the source is read once

    def _now(self) -> float | None:
        """The time that statements are given: none where it is the server's."""
        return self._clock() if self._clock else None

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of one statement, which is a transaction of its own."""
        now = {"now": self._now()}
        return self._connections.with_retry(lambda one: run(one, name, **now, **values).fetchall())

    def _listed(self, leases: Sequence[Lease]) -> str:
        """What statements are given of leases."""
        return json.dumps([self._claimants.lease_row(n, lease) for n, lease in enumerate(leases)])

    def _append(self, connection: Connection, event: Event) -> int:
        """Append an event, after all that its transaction changes of cells; its number."""
        if event.kind in _WAKING:
            run(connection, "notify")
        values = {"kind": event.kind, "fingerprint": event.fingerprint, "now": self._now()}
        data = json.dumps(dict(event.data))
        ((seq,),) = run(connection, "add_event", data=data, **values).fetchall()
        return int(seq)
