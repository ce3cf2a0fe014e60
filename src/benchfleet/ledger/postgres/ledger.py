"""The ledger of a fleet: a schema of its own in a PostgreSQL database, for all who reach it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from psycopg import Connection

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.phase import GATE_EVENTS
from benchfleet.domain.resource import Offer
from benchfleet.domain.seen import Seen, unseen
from benchfleet.domain.state import STATES, State
from benchfleet.errors import ClaimLost
from benchfleet.ledger.addresses import schema_of, shown_url
from benchfleet.ledger.base import DEFAULT_LEASE
from benchfleet.ledger.copying import Row, Tables
from benchfleet.ledger.postgres.claiming import Claiming
from benchfleet.ledger.postgres.claims import Claimants, Claims
from benchfleet.ledger.postgres.connections import PATIENCE, Connections
from benchfleet.ledger.postgres.enrolling import PostgresEnrolment
from benchfleet.ledger.postgres.finishing import Finishing
from benchfleet.ledger.postgres.listening import Listener
from benchfleet.ledger.postgres.moving import enter
from benchfleet.ledger.postgres.opening import prepare
from benchfleet.ledger.postgres.present import campaigns_in
from benchfleet.ledger.postgres.reading import Reading
from benchfleet.ledger.postgres.statements import do
from benchfleet.ledger.postgres.together import Together
from benchfleet.ledger.rows import CellTexts
from benchfleet.ledger.sql import Clock

_WAKING = frozenset({"enrolled", "retry_asked", *GATE_EVENTS})  # may let somebody claim, or end


class PostgresLedger:
    """A ledger in the database at `url`, made where there is none; without `make`, none raises
    `LedgerAbsent`.

    Each verb but `enroll` and the reading ones is one statement. A call whose connection breaks is
    made again over another one for `patience` seconds: a finish that went through is then silent,
    and a claim that did is one whose lease runs out.
    """

    requires = ("psycopg",)
    extra = "postgres"

    def __init__(
        self,
        url: str,
        *,
        campaign: str,
        clock: Clock | None = None,
        lease: float = DEFAULT_LEASE,
        patience: float = PATIENCE,
        make: bool = True,
    ) -> None:
        self.shown, self.schema = shown_url(url), schema_of(campaign)
        self._clock, self._lease = clock, lease
        self._turn = _lock_number(self.schema)
        self._connections = Connections(url, self.shown, self.schema, patience=patience)
        self._renewing = Connections(url, self.shown, self.schema, patience=lease / 5)
        self._texts = CellTexts()
        self._claimants = Claimants()
        self._beginning = threading.Lock()
        self._begin({})
        self._finish = Together(self.finish_all)
        self._reading = Reading(self._connections, clock=clock, turn=self._turn)
        self._listeners: list[Listener] = []
        try:
            self._connections.check()
            self._connections.asked(
                lambda connection: prepare(
                    connection,
                    schema=self.schema,
                    campaign=campaign,
                    shown=self.shown,
                    make=make,
                )
            )
            self._connections.asked(self._connections.note_era)
            self._era = self._connections.era
        except BaseException:
            self.close()
            raise

    def _begin(self, declared: dict[str, Cell]) -> None:
        """Know nothing of the server's cells yet but what they are."""
        self._era = self._connections.era
        claims = Claims(self._texts, self._lease)
        claims.declared = declared
        self._finishing = Finishing(
            self._connections,
            claims.ordinals,
            self._claimants,
            clock=self._clock,
            turn=self._turn,
        )
        self._claiming = Claiming(
            self._connections,
            claims,
            self._finishing,
            clock=self._clock,
            lease=self._lease,
            turn=self._turn,
        )

    def _now_claiming(self) -> Claiming:
        """What claims. Where another server took over, or the ledger was restored, it may lack what
        was committed last, and what we know of its cells does not hold."""
        if self._era != self._connections.era:
            with self._beginning:
                if self._era != self._connections.era:
                    self._begin(self._claiming.claims.declared)
        return self._claiming

    @classmethod
    def campaigns(cls, url: str) -> Sequence[str]:
        """The campaigns whose ledgers are in the database, as far as we may look."""
        return campaigns_in(url)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._connections.close()
        self._renewing.close()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Give up what this thread asks meanwhile so soon where the server is away."""
        with self._connections.hurry.within(seconds), self._renewing.hurry.within(seconds):
            yield

    def _now(self) -> float | None:
        """The time that statements are given: none, where it is the server's."""
        return self._clock() if self._clock else None

    # Enrolling and claiming

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        declared = list(cells)  # it may have to be asked again

        def enrolled(connection: Connection) -> int:
            with connection.transaction():
                enrolment = PostgresEnrolment(connection, self._texts, paths)
                new, changed = enrolment.enter(declared)
                if new or changed:
                    do(connection, "enrolled")
                    self._append(connection, "enrolled", "", {"new": new, "changed": changed})
            return new

        new = self._connections.asked(enrolled)
        self._claiming.claims.declared.update((cell.fingerprint, cell) for cell in declared)
        return new

    def claim(self, runner: RunnerId, offer: Offer, limit: int = 1) -> Sequence[Claim]:
        return self._noted(runner, self._now_claiming().claim(runner, offer, limit))

    def _noted(self, runner: RunnerId, claims: Sequence[Claim]) -> Sequence[Claim]:
        self._claimants.note(runner, (claim.lease for claim in claims))
        return claims

    # Holding and ending

    def _one(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of one statement, which is a transaction of its own."""
        return self._connections.asked(lambda c: do(c, name, **values).fetchall())

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        if not leases:
            return []
        values = {"lease": self._lease, **self._named(leases)}
        held = self._renewing.asked(
            lambda connection: do(connection, "renew", now=self._now(), **values).fetchall()
        )
        tokens: dict[str, int] = dict(held)
        return [
            Lease(
                fingerprint=lease.fingerprint,
                attempt=lease.attempt,
                token=lease.token,
                expires_in=self._lease,
            )
            for lease in leases
            if tokens.get(lease.fingerprint) == lease.token
        ]

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        self._finish((lease, outcome))

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        """End several attempts in one transaction: for each nothing, or why it was refused."""
        self._now_claiming()
        refused = self._finishing.finish_all(ended)
        self._claimants.forget(lease for lease, _ in ended)
        return refused

    def exchange(
        self, ended: Sequence[tuple[Lease, Outcome]], runner: RunnerId, offer: Offer, limit: int
    ) -> tuple[Sequence[ClaimLost | None], Sequence[Claim]]:
        """End attempts and claim what is next, in one transaction where nothing is to be learnt
        before."""
        refused, claims = self._now_claiming().exchange(ended, runner, offer, limit)
        self._claimants.forget(lease for lease, _ in ended)
        return refused, self._noted(runner, claims)

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        if leases:
            values = {"reason": json.dumps(reason), "turn": self._turn, **self._named(leases)}
            self._connections.asked(
                lambda connection: do(connection, "release", now=self._now(), **values)
            )
            self._claimants.forget(leases)

    def _named(self, leases: Sequence[Lease]) -> dict[str, list[Any]]:
        return {
            "fingerprints": [lease.fingerprint for lease in leases],
            "tokens": [lease.token for lease in leases],
            "runners": [self._claimants.of(lease) for lease in leases],
        }

    def reap(self) -> Sequence[Fingerprint]:
        return [row[0] for row in self._one("reap", now=self._now(), turn=self._turn)]

    # Telling

    def record(self, event: Event) -> int:
        def recorded(connection: Connection) -> int:
            with connection.transaction():
                if event.kind == "retry_asked":
                    do(connection, "retry", fingerprint=event.fingerprint)
                elif event.kind == "cancel_asked":
                    do(connection, "cancel", fingerprint=event.fingerprint)
                data = dict(event.data)
                return self._append(connection, event.kind, event.fingerprint, data)

        return self._connections.asked(recorded)

    def listen(self, told: Callable[[], None]) -> None:
        """Call `told`, from a thread of its own until this is closed, when others made cells
        claimable."""
        self._listeners.append(Listener(self._connections, self.schema, told))

    def _append(self, connection: Connection, kind: str, fingerprint: str, data: Any) -> int:
        if kind in _WAKING:
            do(connection, "notify")
        do(connection, "all_told", turn=self._turn)
        row = do(
            connection,
            "add_event",
            now=self._now(),
            kind=kind,
            fingerprint=fingerprint,
            data=json.dumps(data),
        ).fetchall()[0]
        return int(row[0])

    def events(
        self,
        since: int = 0,
        among: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        return self._reading.events(since, among, kinds)

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        among: Collection[str] | None = None,
        whole: bool = False,
    ) -> Iterator[CellRecord]:
        return self._reading.cells(STATES if states is None else states, among, whole)

    # Moving

    def tables(self) -> AbstractContextManager[Iterator[tuple[str, Iterable[Row]]]]:
        return self._reading.tables()

    def fill(self, tables: Tables, *, seen: Seen = unseen) -> None:
        with self._connections.lent(lambda connection: connection) as connection:
            enter(connection, self.shown, tables)  # once: the source is read once


def _lock_number(schema: str) -> int:
    """The number of the lock that those take who append events to this ledger."""
    digest = hashlib.sha256(f"{schema} events".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
