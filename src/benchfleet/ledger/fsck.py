"""Checks the consistency of a ledger: its cells against its history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.humanize import counted
from benchfleet.domain.names import path_part
from benchfleet.domain.state import FINAL_STATES, STATES
from benchfleet.errors import LedgerDamaged
from benchfleet.ledger.serialization import PARSE_ERRORS, parse_cell
from benchfleet.ledger.table_copy import CopyableLedger, Row


class _Cell(NamedTuple):
    """A row of the table of cells, as `TABLES` has it."""

    ordinal: int
    fingerprint: str
    id: str
    path: str
    state: str
    ready: float | None
    attempt: int
    tries: int
    token: int
    ended_token: int
    runner: str
    expires: float | None
    outcome: int | None


def problems(ledger: CopyableLedger) -> Iterator[str]:
    """What is wrong with it, each with the path of its cell; nothing for a sound one.

    The rows are read as they are, all in one view, so that one that cannot be read hides no other.
    """
    cells: dict[int, _Cell] = {}
    history = _History()
    with ledger.tables() as tables:
        for table, rows in tables:
            if table == "cell":
                cells = {cell.ordinal: cell for cell in map(_Cell._make, rows)}
            elif table == "spec":
                yield from _spec_problems(cells, rows)
            else:
                outcome_seqs = {cell.outcome for cell in cells.values()}
                yield from history.read(
                    rows, {c.fingerprint: c.path for c in cells.values()}, outcome_seqs
                )
    for cell in cells.values():
        yield from (f"{cell.path}: {fault}" for fault in _state_problems(cell, history))


def _spec_problems(cells: dict[int, _Cell], rows: Iterable[Row]) -> Iterator[str]:
    """What is wrong with the specs of the cells."""
    without = dict(cells)
    for ordinal, spec, terms in rows:
        row = without.pop(ordinal, None)
        if row is None:
            yield f"cell {ordinal}: what it is stands there, and nothing else of it"
            continue
        try:
            cell = parse_cell(spec, terms)
            same = cell.fingerprint == row.fingerprint
            named = cell.id == row.id
        except (LedgerDamaged, *PARSE_ERRORS):
            yield f"{row.path}: what it is cannot be read"
            continue
        if not same:
            yield f"{row.path}: what it is does not have its fingerprint"
        elif not named:
            yield f"{row.path}: it is {cell.id}, and called {row.id}"
    for row in without.values():
        yield f"{row.path}: what it is does not stand there"


class _History:
    """The state of the cells by the events."""

    def __init__(self) -> None:
        self.claims: Counter[str] = Counter()
        self.finished: dict[str, int] = {}  # by fingerprint, the number of the last event
        self.retried: dict[str, int] = {}
        self.outcomes: dict[int, Outcome | None] = {}  # by number; None cannot be read

    def read(
        self, rows: Iterable[Row], paths: dict[str, str], outcome_seqs: set[Any]
    ) -> Iterator[str]:
        """Read all events; yield their problems. `outcome_seqs`: the events that cells refer to."""
        for seq, _, kind, fingerprint, data in rows:
            if seq not in outcome_seqs and not _is_readable(data):
                yield f"event {seq}: what it says cannot be read"
            if kind == "retry_asked":
                self.retried[fingerprint] = seq
            if kind not in ("claimed", "finished"):
                continue
            if fingerprint not in paths:
                yield f"event {seq}: it names a cell that does not exist"
            elif kind == "claimed":
                self.claims[fingerprint] += 1
            else:
                self.finished[fingerprint] = seq
                if seq in outcome_seqs:
                    self.outcomes[seq] = _outcome_of(data)


def _is_readable(data: str) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except PARSE_ERRORS:
        return False


def _outcome_of(data: str) -> Outcome | None:
    try:
        return Outcome.from_dict(json.loads(data)["outcome"])
    except PARSE_ERRORS:
        return None


def _state_problems(cell: _Cell, history: _History) -> Iterator[str]:
    """What does not fit together of a cell's row and its history."""
    if not _leads_below(cell.path):
        yield "that is not a path below the results"
    claims = history.claims[cell.fingerprint]
    if claims < cell.attempt:
        yield f"begun {cell.attempt} times, of which the history tells {claims}"
    if cell.token < cell.attempt:
        yield f"its token {cell.token} is below its {counted(cell.attempt, 'attempt')}"
    if cell.ended_token > cell.token:
        yield f"its token {cell.token} is below {cell.ended_token}, which ended"
    if cell.state not in STATES:
        yield f"its state is {cell.state!r}, which is none"
    if cell.state == "running" and cell.expires is None:
        yield "it is running, and its lease never runs out"
    yield from _outcome_problems(cell, history)


def _outcome_problems(cell: _Cell, history: _History) -> Iterator[str]:
    """What does not fit together of how a cell stands and how its last attempt ended."""
    last = history.finished.get(cell.fingerprint)
    if cell.outcome is not None and cell.outcome not in history.outcomes:
        yield "its outcome is not in the history"
        return
    if cell.outcome != last:
        yield "its outcome is not that of the attempt that ended last"
        return
    ended = cell.state in FINAL_STATES and cell.state != "cancelled"
    if last is None:
        if ended:
            yield f"it is {cell.state}, without an outcome"
        return
    how = history.outcomes[last]
    if how is None:
        yield "how it ended cannot be read"
    elif ended and (how.state != cell.state or how.retry_in is not None):
        yield f"it is {cell.state}, and ended as {how.state}"
    elif (
        cell.state == "pending"
        and cell.ended_token == cell.token
        and how.retry_in is None
        and history.retried.get(cell.fingerprint, 0) < last
    ):
        yield f"it waits, and ended as {how.state}, and nobody asked for another try"


def _leads_below(path: str) -> bool:
    """Whether folders may be made of it: no part of it leads anywhere else."""
    marked = [part[:-9] if part[-9:-8] == "@" else part for part in path.split("/")]
    try:
        return [path_part(part) for part in marked] == marked
    except ValueError:
        return False
