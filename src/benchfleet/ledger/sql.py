"""What the SQL ledgers share: the verbs of the contract over named statements.

A database brings its own file of statements, its connection and its transactions; the statements
are plain SQL, and what they are called and given stands here.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Offer
from benchfleet.domain.state import STATES, State
from benchfleet.errors import ClaimLost
from benchfleet.ledger.entering import SqliteEnrolment
from benchfleet.ledger.rows import CellTexts, cell_of, record_of
from benchfleet.ledger.sqlite.chosen_table import ChosenTable, Do

Clock = Callable[[], float]  # seconds since the epoch
_HERE = Path(__file__).parent


def named_statements(text: str) -> dict[str, str]:
    """The statements of a .sql file, by the name in the ``-- name:`` line above each. Raises
    ValueError where two have the same."""
    found: dict[str, str] = {}
    for part in text.split("\n-- name: ")[1:]:
        name, _, statement = part.partition("\n")
        if name in found:
            raise ValueError(f"two statements are named {name!r}")
        found[name] = statement.strip()
    return found


@cache
def read_statements(database: str) -> dict[str, str]:
    """The named statements of a database."""
    file = _HERE / "queries" / f"{database}.sql"
    return named_statements(file.read_text(encoding="utf-8"))


@cache
def migrations(database: str) -> list[str]:
    """The migration scripts of a database, in their order: the first one makes schema 1."""
    scripts = sorted((_HERE / "migrations" / database).glob("*.sql"))
    return [script.read_text(encoding="utf-8") for script in scripts]


class SqlLedger(ABC):
    """The ledger contract over a database that has the statements."""

    def __init__(self, *, clock: Clock, lease: float) -> None:
        self._clock = clock
        self._lease = lease
        self._chosen = ChosenTable()
        self._texts = CellTexts()
        self._declared: dict[str, Cell] = {}  # by fingerprint, as they were enrolled last

    @abstractmethod
    def _writing(self, *, synced: bool = True) -> AbstractContextManager[Do]:
        """One transaction that excludes other writers, committed where the block ends well.

        Not `synced`: a power cut may take it back, where that ends everybody who relies on it.
        """

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Do]:
        """One consistent view, which holds up no writer however long it is read."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; leases are left as they are."""

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        with self._writing() as do:
            enrolment = SqliteEnrolment(do, partial(self._each, do), self._texts, paths)
            new, changed = enrolment.enter(self._kept(cells))
            if new or changed:
                self._append(do, "enrolled", "", json.dumps({"new": new, "changed": changed}))
        return new

    def _kept(self, cells: Iterable[Cell]) -> Iterator[Cell]:
        """Remember them as they pass."""
        for cell in cells:
            self._declared[cell.fingerprint] = cell
            yield cell

    def _each(self, do: Do, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run one statement for many rows of values."""
        for row in rows:
            do(name, **row)

    def claim(self, runner: RunnerId, offer: Offer, limit: int = 1) -> Sequence[Claim]:
        with self._writing(synced=False) as do:
            return self._claimed(do, runner, offer, limit)

    def _claimed(self, do: Do, runner: RunnerId, offer: Offer, limit: int) -> list[Claim]:
        now = self._clock()
        return [self._take(do, row, runner, now) for row in self._picked(do, offer, limit, now)]

    @abstractmethod
    def _picked(self, do: Do, offer: Offer, limit: int, now: float) -> Iterable[Any]:
        """The cells to claim, each claimed before the next is asked for."""

    def _take(self, do: Do, row: Any, runner: RunnerId, now: float) -> Claim:
        ordinal, fingerprint, path, attempt, tries, token, spec, terms, finished = row
        lease = Lease(
            fingerprint=fingerprint, attempt=attempt + 1, token=token + 1, expires_in=self._lease
        )
        do(
            "take",
            ordinal=ordinal,
            attempt=lease.attempt,
            token=lease.token,
            runner=runner,
            expires=now + self._lease,
        )
        event = self._append(do, "claimed", fingerprint, _told(lease, runner), at=now)
        self._chosen.began(do, ordinal, event)
        cell = self._cell(fingerprint, spec, terms)
        after = Outcome.from_dict(json.loads(finished)["outcome"]) if finished else None
        if after and after.retry_in is None:
            after = None
        return Claim(lease=lease, cell=cell, path=path, tries=tries, after=after)

    def _cell(self, fingerprint: str, spec: str, terms: str) -> Cell:
        """The cell of a row: the declared one itself, with all that was worked out of it before,
        where the ledger has just that."""
        cell = self._declared.get(fingerprint)
        if cell and self._texts.spec(cell) == spec and self._texts.terms(cell) == terms:
            return cell
        return cell_of(spec, terms)

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        among = json.dumps([lease.fingerprint for lease in leases])
        with self._writing(synced=False) as do:
            expires = self._clock() + self._lease
            rows = do("held_of", among=among).fetchall()
            ordinals = {(fingerprint, token): ordinal for ordinal, fingerprint, token in rows}
            held = [one for one in leases if (one.fingerprint, one.token) in ordinals]
            renewed = [ordinals[one.fingerprint, one.token] for one in held]
            do("renew", ordinals=json.dumps(renewed), expires=expires)
        return [replace(lease, expires_in=self._lease) for lease in held]

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        with self._writing() as do:
            self._end(do, lease, outcome)

    def _end(self, do: Do, lease: Lease, outcome: Outcome) -> None:
        """End an attempt. Raises ClaimLost, before anything was written."""
        cell = do("held", fingerprint=lease.fingerprint).fetchone()
        if cell is None:
            raise ClaimLost(f"the ledger knows no cell {lease.fingerprint[:8]}")
        ordinal, state, _, token, ended_token, runner, last = cell
        name = f"attempt {lease.attempt} of cell {lease.fingerprint[:8]}"
        if ended_token == lease.token:
            had = json.loads(do("event", seq=last).fetchone()[0])["outcome"]
            if (had["state"], had["digest"]) == (outcome.state, outcome.digest):
                return
            raise ClaimLost(f"{name} has ended already, as {had['state']}")
        if token != lease.token:
            raise ClaimLost(
                f"{name} holds no longer: its token is {lease.token}, the cell's is {token}"
            )
        now, retry = self._clock(), outcome.retry_in
        do(
            "finish",
            ordinal=ordinal,
            state=outcome.state if retry is None else "pending",
            ready=now + retry if retry else None,
            charged=outcome.charged,
            token=lease.token,
        )
        told = _told(lease, runner, f', "outcome": {json.dumps(outcome.to_dict())}')
        event = self._append(do, "finished", lease.fingerprint, told, at=now)
        if state == "running" and retry is None:
            self._chosen.ended(event)

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        with self._writing() as do:
            for lease in leases:
                cell = do("held", fingerprint=lease.fingerprint).fetchone()
                if cell is not None and _holds(cell, lease):
                    do("release", ordinal=cell[0])
                    told = _told(lease, cell[5], f', "reason": {json.dumps(reason)}')
                    self._append(do, "released", lease.fingerprint, told)

    def reap(self) -> Sequence[Fingerprint]:
        with self._writing() as do:
            now = self._clock()
            expired = do("expired", now=now).fetchall()
            for ordinal, fingerprint, attempt, token, runner in expired:
                do("reap", ordinal=ordinal)
                facts = {"attempt": attempt, "token": token, "runner": runner}
                self._append(do, "reaped", fingerprint, json.dumps(facts), at=now)
        return [fingerprint for _, fingerprint, *_ in expired]

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        among: Collection[str] | None = None,
        whole: bool = False,
    ) -> Iterator[CellRecord]:
        values = {"states": json.dumps(list(STATES if states is None else states)), "whole": whole}
        wanted = None if among is None else frozenset(among)
        with self._reading() as do:
            now = self._clock()
            # To walk through all in their order is quicker than to look up and sort most of them.
            if wanted is None or 2 * len(wanted) > do("last_ordinal").fetchone()[0]:
                rows = do("cells", **values)
            else:
                rows = do("cells_among", among=json.dumps(list(wanted)), **values)
            for row in rows:
                if wanted is None or row[0] in wanted:
                    yield record_of(row, now)

    def record(self, event: Event) -> int:
        with self._writing() as do:
            if event.kind == "retry_asked":
                do("retry", fingerprint=event.fingerprint)
            elif event.kind == "cancel_asked":
                do("cancel", fingerprint=event.fingerprint)
            return self._append(do, event.kind, event.fingerprint, json.dumps(dict(event.data)))

    def events(
        self,
        since: int = 0,
        among: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        wanted = None if among is None else frozenset(among)
        asked = None if kinds is None else json.dumps(list(kinds))
        with self._reading() as do:
            return [
                Event(kind=kind, fingerprint=fingerprint, data=json.loads(data), seq=seq, at=at)
                for seq, at, kind, fingerprint, data in do("events", since=since, kinds=asked)
                if wanted is None or fingerprint in wanted
            ]

    def _append(
        self, do: Do, kind: str, fingerprint: str, data: str, *, at: float | None = None
    ) -> int:
        """Append an event with its data as JSON; its number."""
        added = do(
            "add_event",
            at=self._clock() if at is None else at,
            kind=kind,
            fingerprint=fingerprint,
            data=data,
        )
        return added.lastrowid or 0


def _told(lease: Lease, runner: str, more: str = "") -> str:
    """What an event of an attempt tells, as JSON."""
    who = f'"attempt": {lease.attempt}, "token": {lease.token}, "runner": {json.dumps(runner)}'
    return f"{{{who}{more}}}"


def _holds(cell: Any, lease: Lease) -> bool:
    _, state, _, token, *_ = cell
    return bool(state == "running" and token == lease.token)
