"""The ledger of a fleet: a schema of its own in a PostgreSQL database, for all who reach it."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, starmap
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import Connection, sql

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.domain.state import FINAL_STATES, STATES, State
from benchfleet.errors import (
    ClaimLost,
    LedgerAbsent,
    LedgerError,
    LedgerTooNew,
    LedgerUnreachable,
)
from benchfleet.ledger.addresses import schema_of, shown_url
from benchfleet.ledger.base import DEFAULT_LEASE
from benchfleet.ledger.choices import ChosenCells, Lane, Waiting, sort_key
from benchfleet.ledger.connections import PATIENCE, Connections
from benchfleet.ledger.copying import TABLES, Row, Tables, refuse_filled, selecting
from benchfleet.ledger.paths import allot
from benchfleet.ledger.present import campaigns_in
from benchfleet.ledger.rows import CellTexts, cell_of, record_of
from benchfleet.ledger.sql import Clock, migrations, read_statements

_TOGETHER = 1000  # cells that an enrolment writes at once
_AHEAD = 8  # more cells than are wanted that a claim looks at first, since others want them too
_AHEAD_MAX = 4096
_FEW = 10_000  # chosen cells that are asked for by name, rather than among all that wait
_BREAKS = 3  # of a line, without a row in between, until a reader gives up
_SOON = 1.0  # seconds by which our idea of the server's time may be wrong
_CURSOR = 2000  # rows that a reader fetches at once
_ONE_VIEW = (
    "begin isolation level repeatable read read only;"
    " set local idle_in_transaction_session_timeout = 0"
)


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
        self._make = make
        self.shown, self.schema = shown_url(url), schema_of(campaign)
        self._clock, self._lease = clock, lease
        self._statements = read_statements("postgres")
        self._turn = _lock_number(self.schema)
        self._connections = Connections(url, self.shown, self.schema, patience=patience)
        self._renewing = Connections(url, self.shown, self.schema, patience=lease / 5)
        self._texts = CellTexts()
        self._declared: dict[str, Cell] = {}  # by fingerprint, as they were enrolled last
        self._claiming = threading.Lock()
        self._chosen: WeakKeyDictionary[Choice, ChosenCells] = WeakKeyDictionary()
        self._lanes: dict[int, Lane] = {}
        self._enrolled = ""  # which enrolment `_chosen` and `_lanes` are of
        self._returned: dict[int, Waiting] = {}  # begun before, and waiting again
        self._offset = 0.0  # seconds that the ledger's clock was ahead of our monotonic one
        try:
            self._connections.check()
            self._connections.asked(lambda connection: self._prepare(connection, campaign))
        except BaseException:
            self.close()
            raise

    @classmethod
    def campaigns(cls, url: str) -> Sequence[str]:
        """The campaigns whose ledgers are in the database, as far as we may look."""
        return campaigns_in(url)

    def close(self) -> None:
        self._connections.close()
        self._renewing.close()

    def _do(self, connection: Connection, name: str, **values: Any) -> psycopg.Cursor:
        return connection.execute(self._statements[name], values)

    def _one(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of one statement, which is a transaction of its own."""
        return self._connections.asked(lambda c: self._do(c, name, **values).fetchall())

    def _now(self) -> float | None:
        """The time that statements are given: none, where it is the server's."""
        return self._clock() if self._clock else None

    # Opening

    def _prepare(self, connection: Connection, campaign: str) -> None:
        """Make, migrate or check the ledger."""
        known = migrations("postgres")
        meta = self._meta(connection)
        if not meta and not self._make:
            raise LedgerAbsent(f"{self.shown} has no ledger of campaign {campaign!r}")
        if int(meta.get("schema", "0")) < len(known):
            with connection.transaction():
                self._do(connection, "making")
                meta = self._meta(connection)  # another may have been first
                self._migrate(connection, known, int(meta.get("schema", "0")))
                if "campaign" not in meta:
                    self._do(connection, "note_meta", key="campaign", value=campaign)
                    self._do(connection, "note_meta", key="enrolled", value="0")
                meta = self._meta(connection)
        if int(meta["schema"]) > len(known):
            raise LedgerTooNew(
                f"{self.shown} was written by a newer benchfleet: its schema is {meta['schema']}, "
                f"this one knows {len(known)}; upgrade benchfleet (nothing was touched)"
            )
        if meta["campaign"] != campaign:  # two names that are one schema's
            raise LedgerError(
                f"schema {self.schema} of {self.shown} is the ledger of campaign "
                f"{meta['campaign']!r}, not of {campaign!r}; name another database"
            )

    def _meta(self, connection: Connection) -> dict[str, str]:
        table = sql.Identifier(self.schema, "meta").as_string()
        row = self._do(connection, "there", meta=table).fetchone()
        return dict(self._do(connection, "meta").fetchall()) if row and row[0] else {}

    def _migrate(self, connection: Connection, scripts: Sequence[str], have: int) -> None:
        for number, script in enumerate(scripts, start=1):
            if number > have:
                if (
                    number == 1
                    and not self._do(connection, "schema_there", schema=self.schema).fetchall()[0][
                        0
                    ]
                ):
                    made = sql.SQL("create schema {}").format(sql.Identifier(self.schema))
                    connection.execute(made)
                connection.execute(script.encode())
                self._do(connection, "note_meta", key="schema", value=str(number))

    # Enrolling

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        declared = list(cells)  # it may have to be asked again
        new = self._connections.asked(lambda c: self._enroll(c, declared, paths))
        self._declared.update((cell.fingerprint, cell) for cell in declared)
        return new

    def _enroll(
        self, connection: Connection, cells: Sequence[Cell], paths: Mapping[Fingerprint, str]
    ) -> int:
        new = changed = 0
        lanes: dict[tuple[str, int, int], int] = {}
        source = iter(cells)
        with connection.transaction():
            self._do(connection, "enrolling")
            row = self._do(connection, "last_ordinal").fetchone()
            last: int = row[0] if row else 0
            while some := list(islice(source, _TOGETHER)):
                fresh, others = self._sorted_out(connection, some)
                self._add(connection, last + new, fresh, paths, lanes)
                new += len(fresh)
                changed += self._change(connection, others, lanes)
                changed += sum(self._texts.terms(a) != self._texts.terms(b) for a, b in fresh)
            if new or changed:
                self._do(connection, "enrolled")
                self._append(connection, "enrolled", "", {"new": new, "changed": changed})
        return new

    def _sorted_out(
        self, connection: Connection, cells: Sequence[Cell]
    ) -> tuple[list[tuple[Cell, Cell]], dict[int, Cell]]:
        """The new ones, as they came first and last, and by ordinal the known ones whose terms are
        others now."""
        last = {cell.fingerprint: cell for cell in cells}
        first = {cell.fingerprint: cell for cell in reversed(cells)}
        known = self._do(connection, "known", among=list(last)).fetchall()
        others = {
            ordinal: last[fingerprint]
            for fingerprint, ordinal, state, terms in known
            if state not in FINAL_STATES and self._texts.terms(last[fingerprint]) != terms
        }
        names = {row[0] for row in known}
        return [(first[name], cell) for name, cell in last.items() if name not in names], others

    def _add(
        self,
        connection: Connection,
        before: int,
        cells: Sequence[tuple[Cell, Cell]],
        paths: Mapping[Fingerprint, str],
        lanes: dict[tuple[str, int, int], int],
    ) -> None:
        """Enter new cells: their identity as it came first, their terms as they came last."""
        if not cells:
            return
        first, last = zip(*cells, strict=True)
        taken, folders = self._paths_near(connection, first, paths)
        self._do(
            connection,
            "add_cells",
            ordinals=[before + number for number in range(1, len(cells) + 1)],
            fingerprints=[cell.fingerprint for cell in first],
            ids=[cell.id for cell in first],
            paths=[allot(cell, paths.get(cell.fingerprint), taken, folders) for cell in first],
            lanes=[self._lane(connection, lanes, cell) for cell in last],
            priorities=[cell.priority for cell in last],
            specs=[self._texts.spec(cell) for cell in first],
            terms=[self._texts.terms(cell) for cell in last],
        )

    def _paths_near(
        self, connection: Connection, cells: Sequence[Cell], paths: Mapping[Fingerprint, str]
    ) -> tuple[set[str], set[str]]:
        """Of the allotted paths and the folders above them, those that matter to these cells."""
        wanted = {
            path
            for cell in cells
            for path in (
                [paths[cell.fingerprint]]
                if cell.fingerprint in paths
                else [cell.path(marked=False), cell.path(marked=True)]
            )
        }
        lineage = {path.rsplit("/", up)[0] for path in wanted for up in range(path.count("/") + 1)}
        near = self._do(
            connection, "paths_near", lineage=list(lineage), paths=list(wanted)
        ).fetchall()
        return {path for path, above in near if not above}, {path for path, above in near if above}

    def _lane(
        self, connection: Connection, lanes: dict[tuple[str, int, int], int], cell: Cell
    ) -> int:
        key = (cell.model.load_key, cell.need.gpus, cell.need.vram)
        if key not in lanes:
            values = dict(zip(("load_key", "gpus", "vram"), key, strict=True))
            self._do(connection, "add_lane", **values)
            lanes[key] = self._do(connection, "lane", **values).fetchall()[0][0]
        return lanes[key]

    def _change(
        self,
        connection: Connection,
        cells: Mapping[int, Cell],
        lanes: dict[tuple[str, int, int], int],
    ) -> int:
        if not cells:
            return 0
        ordinals = sorted(cells)
        return self._do(
            connection,
            "change_cells",
            ordinals=ordinals,
            lanes=[self._lane(connection, lanes, cells[ordinal]) for ordinal in ordinals],
            priorities=[cells[ordinal].priority for ordinal in ordinals],
            terms=[self._texts.terms(cells[ordinal]) for ordinal in ordinals],
        ).rowcount

    # Claiming

    def claim(self, runner: RunnerId, offer: Offer, limit: int = 1) -> Sequence[Claim]:
        take = {"runner": runner, "lease": self._lease, "turn": self._turn}
        if offer.among is None:
            return self._claim_any(offer, limit, take)
        with self._claiming:
            return self._claim_chosen(offer, offer.among, limit, take)

    def _claim_any(self, offer: Offer, limit: int, take: Mapping[str, Any]) -> list[Claim]:
        ahead, claims = limit + _AHEAD, list[Claim]()
        while len(claims) < limit:
            rows = self._one(
                "claim",
                now=self._now(),
                models=list(offer.models),
                weights=[float(weight) for weight in offer.models.values()],
                others=offer.others,
                gpus=offer.gpus,
                vram=offer.vram,
                ahead=ahead,
                limit=limit - len(claims),
                **take,
            )
            claims += [self._claim_of(row[1:]) for row in rows if row[1] is not None]
            if rows[0][0] < ahead:
                break
            ahead *= 4
        return claims

    def _claim_chosen(
        self, offer: Offer, choice: Choice, limit: int, take: Mapping[str, Any]
    ) -> list[Claim]:
        ahead, claims = limit + _AHEAD, list[Claim]()
        while len(claims) < limit:
            chosen = self._brought_up(choice)
            candidates, more = self._candidates(chosen, offer, ahead)
            rows = self._one(
                "claim_chosen",
                now=self._now(),
                ordinals=candidates,
                returned=list(self._returned),
                readies=[cell.ready for cell in self._returned.values()],
                enrolled=self._enrolled,
                limit=limit - len(claims),
                **take,
            )
            enrolled, now, news, begun, gone = rows[0][:5]
            self._offset = now - time.monotonic()
            chosen.begun(begun or ())
            for ordinal in gone or ():
                self._returned.pop(ordinal, None)
            if enrolled != self._enrolled:
                self._look_again()
                continue
            if news:
                self._returned.update((row[0], Waiting(*row)) for row in news)
                continue
            taken = [row[5:] for row in rows if row[5] is not None]
            claims += [self._claim_of(row) for row in taken]
            chosen.begun(row[0] for row in taken)
            for row in taken:
                self._returned.pop(row[0], None)
            if not more or (ahead >= _AHEAD_MAX and not (taken or begun)):
                break
            ahead = min(4 * ahead, _AHEAD_MAX)
        return claims

    def _look_again(self) -> None:
        """Forget what was read of cells and lanes."""
        self._chosen.clear()
        self._returned.clear()
        rows = self._one("lanes")
        self._enrolled = rows[0][0]
        self._lanes = {
            number: Lane(load_key=load_key, gpus=gpus, vram=vram)
            for _, number, load_key, gpus, vram in rows
            if number is not None
        }

    def _brought_up(self, choice: Choice) -> ChosenCells:
        """The choice's cells that wait, as it is now."""
        if not self._enrolled:
            self._look_again()
        chosen = self._chosen.get(choice)
        version = choice.version
        if chosen is None:
            few = len(choice) <= _FEW
            rows = self._one("fresh_among", among=list(choice)) if few else self._one("fresh")
            if self._strange(rows):
                return self._brought_up(choice)
            chosen = self._chosen[choice] = ChosenCells(choice=choice, version=version)
            chosen.fill(starmap(Waiting, rows))
        elif chosen.version < version:
            changed = list(dict.fromkeys(choice.changed(chosen.version)))
            rows = self._one("fresh_among", among=changed)
            if self._strange(rows):
                return self._brought_up(choice)
            chosen.put(starmap(Waiting, rows))
            chosen.version = version
        return chosen

    def _strange(self, rows: Iterable[Sequence[Any]]) -> bool:
        """Whether cells are in lanes that came since we looked; then we looked again."""
        if all(row[2] in self._lanes for row in rows):
            return False
        self._look_again()
        return True

    def _candidates(self, chosen: ChosenCells, offer: Offer, ahead: int) -> tuple[list[int], bool]:
        """The first cells to try, and whether there are more: some that nobody began, and all that
        were begun before and may be ready, which the ledger's clock alone decides."""
        choice = chosen.choice
        soon = _SOON + (self._clock() if self._clock else self._offset + time.monotonic())
        fresh = list(islice(chosen.ordered(offer, self._lanes), ahead + 1))
        more = len(fresh) > ahead
        again = [
            sort_key(cell, choice, weight)
            for cell in self._returned.values()
            if cell.fingerprint in choice
            and (cell.ready is None or cell.ready <= soon)
            and (weight := self._lanes[cell.lane].weight(offer)) is not None
        ]
        if more:  # what comes after all of those is not to be taken before the next of them
            again = [key for key in again if key < fresh[ahead]]
        ordered = sorted([*fresh[:ahead], *again])
        return [int(key[2]) for key in dict.fromkeys(ordered)], more

    def _claim_of(self, row: Sequence[Any]) -> Claim:
        _, fingerprint, path, attempt, tries, token, spec, terms, finished = row
        cell = self._declared.get(fingerprint)  # with all that was worked out of it before
        if not cell or (self._texts.spec(cell), self._texts.terms(cell)) != (spec, terms):
            cell = cell_of(spec, terms)
        after = Outcome.from_dict(json.loads(finished)["outcome"]) if finished else None
        return Claim(
            lease=Lease(
                fingerprint=fingerprint, attempt=attempt, token=token, expires_in=self._lease
            ),
            cell=cell,
            path=path,
            tries=tries,
            after=after if after and after.retry_in is not None else None,
        )

    # Holding and ending

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        if not leases:
            return []
        held = self._renewing.asked(
            lambda connection: self._do(
                connection, "renew", now=self._now(), lease=self._lease, **_named(leases)
            ).fetchall()
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
        retry = outcome.retry_in is not None
        done = self._one(
            "finish",
            now=self._now(),
            fingerprint=lease.fingerprint,
            attempt=lease.attempt,
            token=lease.token,
            turn=self._turn,
            state="pending" if retry else outcome.state,
            retry_in=outcome.retry_in or None,
            charged=int(outcome.charged),
            outcome=json.dumps(outcome.to_dict()),
        )
        if not done:
            self._refuse(lease, outcome)

    def _refuse(self, lease: Lease, outcome: Outcome) -> None:
        """Say why a lease ends nothing, unless it has ended its attempt so already."""
        held = self._one("held", fingerprint=lease.fingerprint)
        if not held:
            raise ClaimLost(f"the ledger knows no cell {lease.fingerprint[:8]}")
        token, ended_token, finished = held[0]
        name = f"attempt {lease.attempt} of cell {lease.fingerprint[:8]}"
        if ended_token != lease.token:
            raise ClaimLost(
                f"{name} holds no longer: its token is {lease.token}, the cell's is {token}"
            )
        had = json.loads(finished)["outcome"]
        if (had["state"], had["digest"]) != (outcome.state, outcome.digest):
            raise ClaimLost(f"{name} has ended already, as {had['state']}")

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        if leases:
            values = {"reason": json.dumps(reason), "turn": self._turn, **_named(leases)}
            self._connections.asked(
                lambda connection: self._do(connection, "release", now=self._now(), **values)
            )

    def reap(self) -> Sequence[Fingerprint]:
        self._connections.asked(lambda connection: self._do(connection, "wake", now=self._now()))
        return [row[0] for row in self._one("reap", now=self._now(), turn=self._turn)]

    # Telling

    def record(self, event: Event) -> int:
        def recorded(connection: Connection) -> int:
            with connection.transaction():
                if event.kind == "retry_asked":
                    self._do(connection, "retry", fingerprint=event.fingerprint)
                elif event.kind == "cancel_asked":
                    self._do(connection, "cancel", fingerprint=event.fingerprint)
                data = dict(event.data)
                return self._append(connection, event.kind, event.fingerprint, data)

        return self._connections.asked(recorded)

    def _append(self, connection: Connection, kind: str, fingerprint: str, data: Any) -> int:
        self._do(connection, "all_told", turn=self._turn)
        row = self._do(
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
        values: dict[str, Any] = {"kinds": None if kinds is None else list(kinds)}
        values |= {} if among is None else {"among": list(among)}
        name = "events" if among is None else "events_among"

        def found(connection: Connection) -> list[Any]:
            with connection.transaction():  # whatever has a smaller number can be seen
                self._do(connection, "all_told", turn=self._turn)
                last = self._do(connection, "last_event").fetchall()[0][0]
            return self._do(connection, name, since=since, last=last, **values).fetchall()

        return [
            Event(kind=kind, fingerprint=fingerprint, data=json.loads(data), seq=seq, at=at)
            for seq, at, kind, fingerprint, data in self._connections.asked(found)
        ]

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        among: Collection[str] | None = None,
        whole: bool = False,
    ) -> Iterator[CellRecord]:
        values: dict[str, Any] = {"states": list(STATES if states is None else states)}
        values |= {"whole": whole} if among is None else {"whole": whole, "among": list(among)}
        name = "cells" if among is None else "cells_among"

        after = 0  # of the cells that were told, the last; where the line breaks we go on there

        def opened(connection: Connection) -> tuple[float, psycopg.ServerCursor]:
            """One consistent view, with its time."""
            now = self._clock() if self._clock else self._do(connection, "time").fetchall()[0][0]
            connection.execute(_ONE_VIEW)
            cursor = connection.cursor("cells")
            cursor.itersize = _CURSOR
            cursor.execute(self._statements[name], {"after": after, **values})
            return now, cursor

        breaks = 0
        while True:
            try:
                with self._connections.lent(opened) as (now, rows), rows:
                    for ordinal, *row in rows:
                        after, breaks = ordinal, 0
                        yield record_of(row, now)
            except LedgerUnreachable:
                breaks += 1
                if breaks > _BREAKS:
                    raise
            else:
                return

    # Moving

    @contextmanager
    def tables(self) -> Iterator[Iterator[tuple[str, Iterable[Row]]]]:
        def opened(connection: Connection) -> Connection:
            connection.execute(_ONE_VIEW)
            return connection

        def rows(connection: Connection, table: str) -> Iterator[Row]:
            with connection.cursor(table) as cursor:
                cursor.itersize = _CURSOR
                yield from cursor.execute(selecting(table).encode())

        with self._connections.lent(opened) as connection:
            yield ((table, rows(connection, table)) for table in TABLES)

    def fill(self, tables: Tables) -> None:
        def filled(connection: Connection) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                self._do(connection, "enrolling")
                refuse_filled(self.shown, *self._do(connection, "counts").fetchall()[0])
                for table, rows in tables:
                    columns = sql.SQL(", ").join(map(sql.Identifier, TABLES[table]))
                    name = sql.Identifier(table)
                    with cursor.copy(
                        sql.SQL("copy {} ({}) from stdin").format(name, columns)
                    ) as entering:
                        for row in rows:
                            entering.write_row(row)
                self._do(connection, "enrolled")
                self._do(connection, "go_on")

        with self._connections.lent(lambda connection: connection) as connection:
            filled(connection)  # once: what is read of the source is read once


def _lock_number(schema: str) -> int:
    """The number of the lock that those take who append events to this ledger."""
    digest = hashlib.sha256(f"{schema} events".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _named(leases: Sequence[Lease]) -> dict[str, list[Any]]:
    return {
        "fingerprints": [lease.fingerprint for lease in leases],
        "tokens": [lease.token for lease in leases],
    }
