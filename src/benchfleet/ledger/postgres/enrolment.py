"""Entering cells into a PostgreSQL ledger, a thousand in one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from psycopg import Connection

from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.ledger.enrolment import Enrolment
from benchfleet.ledger.postgres.queries import run
from benchfleet.ledger.serialization import CellSerializer


class PostgresEnrolment(Enrolment):
    """One enrolment over a connection, whose transaction is the caller's."""

    def __init__(
        self, connection: Connection, texts: CellSerializer, paths: Mapping[Fingerprint, str]
    ) -> None:
        super().__init__(texts, paths)
        self._connection = connection

    def enter(self, cells: Iterable[Cell]) -> tuple[int, int]:
        run(self._connection, "lock_enrolment")
        return super().enter(cells)

    def _last_ordinal(self) -> int:
        ((last,),) = run(self._connection, "last_ordinal").fetchall()
        return int(last)

    def _known_cells(self, fingerprints: Sequence[str]) -> Iterable[Any]:
        return run(self._connection, "enrolled_cells", fingerprints=list(fingerprints)).fetchall()

    def _near(self, lineage: Collection[str], paths: Collection[str]) -> Iterable[Any]:
        values = {"lineage": list(lineage), "paths": list(paths)}
        return run(self._connection, "conflicting_paths", **values).fetchall()

    def _add(self, columns: Mapping[str, Sequence[Any]]) -> None:
        values = {name: list(column) for name, column in columns.items()}
        run(self._connection, "add_cells", **values)

    def _change(self, columns: Mapping[str, Sequence[Any]]) -> int:
        return run(self._connection, "change_terms", **columns).rowcount
