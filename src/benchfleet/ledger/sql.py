"""What the SQL ledgers share: the verbs of the contract over named statements.

A database brings its own file of statements, its connection and its transactions; the statements
are plain SQL, and what they are called and given stands here.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Offer
from benchfleet.domain.state import FINAL_STATES, STATES, State
from benchfleet.errors import ClaimLost, LedgerError

Clock = Callable[[], float]  # seconds since the epoch


class Rows(Protocol):
    """The answer of a statement, row by row."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Do(Protocol):
    """Runs one statement by its name."""

    def __call__(self, name: str, /, **values: Any) -> Rows: ...


def named_statements(text: str) -> dict[str, str]:
    """The statements of a .sql file, by the name in the ``-- name:`` line above each."""
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
    file = files("benchfleet.ledger").joinpath(f"queries/{database}.sql")
    return named_statements(file.read_text(encoding="utf-8"))


@cache
def migrations(database: str) -> list[str]:
    """The migration scripts of a database, in their order: the first one makes schema 1."""
    folder = files("benchfleet.ledger").joinpath(f"migrations/{database}")
    scripts = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [script.read_text(encoding="utf-8") for script in scripts]


class SqlLedger(ABC):
    """The ledger contract over a database that has the statements."""

    def __init__(self, *, clock: Clock, lease: float) -> None:
        self._clock = clock
        self._lease = lease
        self._among: frozenset[str] | None = None
        self._choice = 0  # the number that the current `_among` has in temp.choice

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Do]:
        """One transaction that excludes other writers, committed where the block ends well."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Do]:
        """One consistent view, which holds up no writer however long it is read."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; leases are left as they are."""

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        new = changed = 0
        lanes: dict[tuple[str, int, int], int] = {}
        with self._writing() as do:
            last: int = do("last_ordinal").fetchone()[0]
            for cell in cells:
                spec, terms = _split(cell)
                known = do("known", fingerprint=cell.fingerprint).fetchone()
                if known is None:
                    new += 1
                    ordinal = last + new
                    do(
                        "add_cell",
                        ordinal=ordinal,
                        fingerprint=cell.fingerprint,
                        id=cell.id,
                        path=_allot(do, cell, paths.get(cell.fingerprint)),
                        lane=_lane(do, lanes, cell),
                        priority=cell.priority,
                    )
                    do("add_spec", ordinal=ordinal, spec=json.dumps(spec), terms=terms)
                    continue
                ordinal, state, old_terms = known
                if terms != old_terms and state not in FINAL_STATES:
                    changed += 1
                    lane = _lane(do, lanes, cell)
                    do("change_cell", ordinal=ordinal, lane=lane, priority=cell.priority)
                    do("change_terms", ordinal=ordinal, terms=terms)
            if new or changed:
                self._append(do, "enrolled", "", {"new": new, "changed": changed})
        return new

    def claim(self, runner: RunnerId, offer: Offer, limit: int = 1) -> Sequence[Claim]:
        claims: list[Claim] = []
        with self._writing() as do:
            now = self._clock()
            do("wake", now=now)
            if offer.among is not None:
                self._choose(do, offer.among, now)
            source = "claimable" if offer.among is None else "claimable_chosen"
            for load_key in (*offer.loaded, None):  # None: whatever model
                left = limit - len(claims)
                if left <= 0:
                    break
                best = do(source, gpus=offer.gpus, vram=offer.vram, load_key=load_key, limit=left)
                claims += [self._take(do, row, runner, now) for row in best.fetchall()]
        return claims

    def _take(self, do: Do, row: Any, runner: RunnerId, now: float) -> Claim:
        ordinal, fingerprint, path, attempt, tries, token, spec, terms = row
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
        self._append(do, "claimed", fingerprint, _facts(lease, runner), at=now)
        return Claim(lease=lease, cell=_joined(spec, terms), path=path, tries=tries)

    def _choose(self, do: Do, among: frozenset[str], now: float) -> None:
        """Bring temp.chosen to what of `among` has not ended, in the state that it has now."""
        if among is not self._among and among != self._among:
            self._among = among
            self._choice += 1
        choice = do("choice").fetchone()
        if choice is None or choice[0] != self._choice or choice[3]:
            do("forget_choice")
            do("forget_chosen")
            do("fill_chosen", among=json.dumps(list(among)))
            do("fill_choice", number=self._choice)
        elif choice[1] < choice[2]:
            do("drop_ended", seen=choice[1])
            do("chosen_back_off", seen=choice[1])
            do("followed", seen=choice[2])
        do("chosen_wake", now=now)

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        held = []
        with self._writing() as do:
            expires = self._clock() + self._lease
            for lease in leases:
                cell = do("held", fingerprint=lease.fingerprint).fetchone()
                if cell is not None and _holds(cell, lease):
                    do("renew", ordinal=cell[0], expires=expires)
                    held.append(
                        Lease(
                            fingerprint=lease.fingerprint,
                            attempt=lease.attempt,
                            token=lease.token,
                            expires_in=self._lease,
                        )
                    )
        return held

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        retry = outcome.retry_in is not None
        ended = outcome.to_dict()
        with self._writing() as do:
            cell = do("held", fingerprint=lease.fingerprint).fetchone()
            if cell is None:
                raise ClaimLost(f"the ledger knows no cell {lease.fingerprint[:8]}")
            ordinal, _, _, token, ended_token, runner, last = cell
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
            now = self._clock()
            do(
                "finish",
                ordinal=ordinal,
                state="pending" if retry else outcome.state,
                ready=now + outcome.retry_in if outcome.retry_in else None,
                charged=int(outcome.charged),
                token=lease.token,
            )
            facts = {**_facts(lease, runner), "outcome": ended}
            self._append(do, "finished", lease.fingerprint, facts, at=now)

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        with self._writing() as do:
            for lease in leases:
                cell = do("held", fingerprint=lease.fingerprint).fetchone()
                if cell is not None and _holds(cell, lease):
                    do("release", ordinal=cell[0])
                    facts = {**_facts(lease, cell[5]), "reason": reason}
                    self._append(do, "released", lease.fingerprint, facts)

    def reap(self) -> Sequence[Fingerprint]:
        with self._writing() as do:
            now = self._clock()
            expired = do("expired", now=now).fetchall()
            for ordinal, fingerprint, attempt, token, runner in expired:
                do("reap", ordinal=ordinal)
                facts = {"attempt": attempt, "token": token, "runner": runner}
                self._append(do, "reaped", fingerprint, facts, at=now)
        return [fingerprint for _, fingerprint, *_ in expired]

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        among: Collection[str] | None = None,
        whole: bool = False,
    ) -> Iterator[CellRecord]:
        values = {"states": json.dumps(list(STATES if states is None else states)), "whole": whole}
        with self._reading() as do:
            now = self._clock()
            if among is None:
                rows = do("cells", **values)
            else:
                rows = do("cells_among", among=json.dumps(list(among)), **values)
            for row in rows:
                yield _record(row, now)

    def record(self, event: Event) -> int:
        with self._writing() as do:
            if event.kind == "retry_asked":
                do("retry", fingerprint=event.fingerprint)
            elif event.kind == "cancel_asked":
                do("cancel", fingerprint=event.fingerprint)
            self._append(do, event.kind, event.fingerprint, dict(event.data))
            seq: int = do("last_event").fetchone()[0]
        return seq

    def events(self, since: int = 0) -> Sequence[Event]:
        with self._reading() as do:
            return [
                Event(kind=kind, fingerprint=fingerprint, data=json.loads(data), seq=seq, at=at)
                for seq, at, kind, fingerprint, data in do("events", since=since)
            ]

    def _append(
        self, do: Do, kind: str, fingerprint: str, data: Any, *, at: float | None = None
    ) -> None:
        do(
            "add_event",
            at=self._clock() if at is None else at,
            kind=kind,
            fingerprint=fingerprint,
            data=json.dumps(data),
        )


def _facts(lease: Lease, runner: str) -> dict[str, Any]:
    return {"attempt": lease.attempt, "token": lease.token, "runner": runner}


def _holds(cell: Any, lease: Lease) -> bool:
    _, state, _, token, *_ = cell
    return bool(state == "running" and token == lease.token)


def _lane(do: Do, lanes: dict[tuple[str, int, int], int], cell: Cell) -> int:
    key = (cell.model.load_key, cell.need.gpus, cell.need.vram)
    if key not in lanes:
        values = dict(zip(("load_key", "gpus", "vram"), key, strict=True))
        do("add_lane", **values)
        lanes[key] = do("lane", **values).fetchone()[0]
    return lanes[key]


def _allot(do: Do, cell: Cell, given: str | None) -> str:
    """The given path, or the first of the cell's two, that is free."""
    wanted = [given] if given else [cell.path(marked=False), cell.path(marked=True)]
    for path in wanted:
        parts = path.split("/")
        lineage = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
        if not do("path_taken", path=path, lineage=json.dumps(lineage)).fetchone()[0]:
            return path
    raise LedgerError(
        f"the results path {path} belongs to another cell; give the model or the subset of "
        f"{cell.id} another name"
    )


def _split(cell: Cell) -> tuple[dict[str, Any], str]:
    """What the cell is, and as JSON what follows the campaign while it has not ended."""
    spec = cell.to_dict()
    model, workload = spec["model"], spec["workload"]
    terms = {name: spec.pop(name) for name in ("need", "limits", "priority")}
    terms["model"] = {name: model.pop(name) for name in ("source", "python")}
    terms["workload"] = {"outside": dict(workload.pop("outside"))}
    return spec, json.dumps(terms)


def _joined(spec: str, terms: str) -> Cell:
    value, current = json.loads(spec), json.loads(terms)
    for part in ("model", "workload"):
        current[part] = {**value[part], **current.get(part, {})}
    return Cell.from_dict({**value, **current})


def _record(row: Any, now: float) -> CellRecord:
    (
        fingerprint, id, path, state, attempt, tries, token, runner, expires, ready, finished,
        spec, terms,
    ) = row  # fmt: skip
    running = state == "running"
    return CellRecord(
        fingerprint=fingerprint,
        id=id,
        path=path,
        state=state,
        attempt=attempt,
        tries=tries,
        token=token,
        runner=runner if running else "",
        expires_in=expires - now if running else None,
        ready_in=max(0.0, ready - now) if ready is not None else 0.0,
        outcome=Outcome.from_dict(json.loads(finished)["outcome"]) if finished else None,
        cell=_joined(spec, terms) if spec else None,
    )
