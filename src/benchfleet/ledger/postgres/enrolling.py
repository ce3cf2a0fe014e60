"""Entering cells into a PostgreSQL ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from psycopg import Connection

from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.ledger.enrolment import Enrolment, LaneKey
from benchfleet.ledger.postgres.statements import do
from benchfleet.ledger.rows import CellTexts


class PostgresEnrolment(Enrolment):
    """One enrolment over a connection, whose transaction is the caller's."""

    def __init__(
        self, connection: Connection, texts: CellTexts, paths: Mapping[Fingerprint, str]
    ) -> None:
        super().__init__(texts, paths)
        self._connection = connection

    def enter(self, cells: Iterable[Cell]) -> tuple[int, int]:
        do(self._connection, "enrolling")
        return super().enter(cells)

    def _last_ordinal(self) -> int:
        row = do(self._connection, "last_ordinal").fetchone()
        return row[0] if row else 0

    def _known(self, among: Sequence[str]) -> Iterable[Any]:
        return do(self._connection, "known", among=list(among)).fetchall()

    def _near(self, lineage: Collection[str], paths: Collection[str]) -> Iterable[Any]:
        asked = {"lineage": list(lineage), "paths": list(paths)}
        return do(self._connection, "paths_near", **asked).fetchall()

    def _lane(self, key: LaneKey) -> int:
        values = dict(zip(("load_key", "gpus", "vram"), key, strict=True))
        do(self._connection, "add_lane", **values)
        number: int = do(self._connection, "lane", **values).fetchall()[0][0]
        return number

    def _add(self, columns: Mapping[str, Sequence[Any]]) -> None:
        values = {name: list(column) for name, column in columns.items()}
        do(self._connection, "add_cells", **values)

    def _change(self, columns: Mapping[str, Sequence[Any]]) -> int:
        return do(self._connection, "change_cells", **columns).rowcount
