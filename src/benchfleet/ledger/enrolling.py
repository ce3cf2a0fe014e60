"""Entering cells into a PostgreSQL ledger, a thousand at a time, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from psycopg import Connection

from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.state import FINAL_STATES
from benchfleet.ledger.connections import do
from benchfleet.ledger.paths import allot
from benchfleet.ledger.rows import CellTexts

_TOGETHER = 1000  # cells that are written at once


class Enrolment:
    """One enrolment over a connection, whose transaction is the caller's."""

    def __init__(
        self, connection: Connection, texts: CellTexts, paths: Mapping[Fingerprint, str]
    ) -> None:
        self._connection, self._texts, self._paths = connection, texts, paths
        self._lanes: dict[tuple[str, int, int], int] = {}

    def enter(self, cells: Iterable[Cell]) -> tuple[int, int]:
        """Enter them; how many were new, and of how many known ones the terms changed."""
        new = changed = 0
        source = iter(cells)
        do(self._connection, "enrolling")
        row = do(self._connection, "last_ordinal").fetchone()
        last: int = row[0] if row else 0
        while some := list(islice(source, _TOGETHER)):
            fresh, others = self._sorted_out(some)
            self._add(last + new, fresh)
            new += len(fresh)
            changed += self._change(others)
            changed += sum(self._texts.terms(a) != self._texts.terms(b) for a, b in fresh)
        return new, changed

    def _sorted_out(self, cells: Sequence[Cell]) -> tuple[list[tuple[Cell, Cell]], dict[int, Cell]]:
        """The new ones, as they came first and last, and by ordinal the known ones whose terms are
        others now."""
        last = {cell.fingerprint: cell for cell in cells}
        first = {cell.fingerprint: cell for cell in reversed(cells)}
        known = do(self._connection, "known", among=list(last)).fetchall()
        others = {
            ordinal: last[fingerprint]
            for fingerprint, ordinal, state, terms in known
            if state not in FINAL_STATES and self._texts.terms(last[fingerprint]) != terms
        }
        names = {row[0] for row in known}
        return [(first[name], cell) for name, cell in last.items() if name not in names], others

    def _add(self, before: int, cells: Sequence[tuple[Cell, Cell]]) -> None:
        """Enter new cells: their identity as it came first, their terms as they came last."""
        if not cells:
            return
        first, last = zip(*cells, strict=True)
        taken, folders = self._paths_near(first)
        do(
            self._connection,
            "add_cells",
            ordinals=[before + number for number in range(1, len(cells) + 1)],
            fingerprints=[cell.fingerprint for cell in first],
            ids=[cell.id for cell in first],
            paths=[
                allot(cell, self._paths.get(cell.fingerprint), taken, folders) for cell in first
            ],
            lanes=[self._lane(cell) for cell in last],
            priorities=[cell.priority for cell in last],
            specs=[self._texts.spec(cell) for cell in first],
            terms=[self._texts.terms(cell) for cell in last],
        )

    def _paths_near(self, cells: Sequence[Cell]) -> tuple[set[str], set[str]]:
        """Of the allotted paths and the folders above them, those that matter to these cells."""
        wanted = {
            path
            for cell in cells
            for path in (
                [self._paths[cell.fingerprint]]
                if cell.fingerprint in self._paths
                else [cell.path(marked=False), cell.path(marked=True)]
            )
        }
        lineage = {path.rsplit("/", up)[0] for path in wanted for up in range(path.count("/") + 1)}
        near = do(
            self._connection, "paths_near", lineage=list(lineage), paths=list(wanted)
        ).fetchall()
        return {path for path, above in near if not above}, {path for path, above in near if above}

    def _lane(self, cell: Cell) -> int:
        key = (cell.model.load_key, cell.need.gpus, cell.need.vram)
        if key not in self._lanes:
            values = dict(zip(("load_key", "gpus", "vram"), key, strict=True))
            do(self._connection, "add_lane", **values)
            self._lanes[key] = do(self._connection, "lane", **values).fetchall()[0][0]
        return self._lanes[key]

    def _change(self, cells: Mapping[int, Cell]) -> int:
        if not cells:
            return 0
        ordinals = sorted(cells)
        return do(
            self._connection,
            "change_cells",
            ordinals=ordinals,
            lanes=[self._lane(cells[ordinal]) for ordinal in ordinals],
            priorities=[cells[ordinal].priority for ordinal in ordinals],
            terms=[self._texts.terms(cells[ordinal]) for ordinal in ordinals],
        ).rowcount
