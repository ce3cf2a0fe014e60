"""Entering cells into an SQLite ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from benchfleet.domain.cell import Fingerprint
from benchfleet.ledger.enrolment import Enrolment
from benchfleet.ledger.named_queries import Execute
from benchfleet.ledger.serialization import CellSerializer

# Runs one statement by its name for many rows of values.
Each = Callable[[str, Iterable[Mapping[str, Any]]], object]


class SqliteEnrolment(Enrolment):
    """One enrolment by these statements."""

    def __init__(
        self, execute: Execute, each: Each, texts: CellSerializer, paths: Mapping[Fingerprint, str]
    ) -> None:
        super().__init__(texts, paths)
        self._execute, self._each = execute, each

    def _last_ordinal(self) -> int:
        last: int = self._execute("last_ordinal").fetchone()[0]
        return last

    def _known_cells(self, fingerprints: Sequence[str]) -> Iterable[Any]:
        return self._execute("enrolled_cells", fingerprints=json.dumps(fingerprints))

    def _near(self, lineage: Collection[str], paths: Collection[str]) -> Iterable[Any]:
        values = {"lineage": json.dumps(list(lineage)), "paths": json.dumps(list(paths))}
        return self._execute("conflicting_paths", **values).fetchall()

    def _add(self, columns: Mapping[str, Sequence[Any]]) -> None:
        texts = {name: columns[name] for name in ("ordinal", "spec", "terms")}
        self._each("add_cell", _rows({k: v for k, v in columns.items() if k not in _TEXTS}))
        self._each("add_spec", _rows(texts))

    def _change(self, columns: Mapping[str, Sequence[Any]]) -> int:
        self._each("change_terms", _rows(columns))
        return len(columns["ordinal"])


_TEXTS = ("spec", "terms")


def _rows(columns: Mapping[str, Sequence[Any]]) -> Iterable[dict[str, Any]]:
    names = tuple(columns)
    return (dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True))
