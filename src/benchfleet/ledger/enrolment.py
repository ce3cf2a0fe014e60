"""Entering cells into a ledger a thousand at a time: what its databases share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.state import FINAL_STATES
from benchfleet.ledger.paths import PathAllocator
from benchfleet.ledger.serialization import CellSerializer

CELLS_PER_STATEMENT = 1000  # cells that are written at once


class Enrolment(ABC):
    """One enrolment in a transaction, which is the caller's.

    A database provides the reads and writes, always for many cells at once.
    """

    def __init__(self, texts: CellSerializer, paths: Mapping[Fingerprint, str]) -> None:
        self._texts, self._paths = texts, paths

    @abstractmethod
    def _last_ordinal(self) -> int:
        """The order of enrolment goes on from here."""

    @abstractmethod
    def _known_cells(self, fingerprints: Sequence[str]) -> Iterable[Any]:
        """Fingerprint, ordinal, state and terms of those that are in the ledger."""

    @abstractmethod
    def _near(self, lineage: Collection[str], paths: Collection[str]) -> Iterable[Any]:
        """The allotted paths that are in `lineage`, with false, and those of `paths` inside which
        one is allotted, with true."""

    @abstractmethod
    def _add(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Enter new cells."""

    @abstractmethod
    def _change(self, columns: Mapping[str, Sequence[Any]]) -> int:
        """Give cells other terms; of how many."""

    def enter(self, cells: Iterable[Cell]) -> tuple[int, int]:
        """Enter them; how many were new, and of how many known ones the terms changed."""
        new = changed = 0
        source = iter(cells)
        last = self._last_ordinal()
        while some := list(islice(source, CELLS_PER_STATEMENT)):
            fresh, others = self._split_new_and_known(some)
            if fresh:
                self._insert(last + new, fresh)
            new += len(fresh)
            changed += self._update_terms(others) if others else 0
            changed += sum(
                a is not b and self._texts.terms(a) != self._texts.terms(b) for a, b in fresh
            )
        return new, changed

    def _split_new_and_known(
        self, cells: Sequence[Cell]
    ) -> tuple[list[tuple[Cell, Cell]], dict[int, Cell]]:
        """The new ones, as they came first and last, and by ordinal the known ones whose terms are
        others now."""
        last = {cell.fingerprint: cell for cell in cells}
        first = {cell.fingerprint: cell for cell in reversed(cells)}
        known_rows = list(self._known_cells(list(last)))
        others = {
            ordinal: last[fingerprint]
            for fingerprint, ordinal, state, terms in known_rows
            if state not in FINAL_STATES and self._texts.terms(last[fingerprint]) != terms
        }
        names = {row[0] for row in known_rows}
        return [(first[name], cell) for name, cell in last.items() if name not in names], others

    def _insert(self, before: int, cells: Sequence[tuple[Cell, Cell]]) -> None:
        """Enter new cells: their identity as it came first, their terms as they came last."""
        first, last = zip(*cells, strict=True)
        self._add(
            {
                "ordinal": range(before + 1, before + len(cells) + 1),
                "fingerprint": [cell.fingerprint for cell in first],
                "id": [cell.id for cell in first],
                "path": list(self._allocate_paths(first)),
                "spec": [self._texts.spec(cell) for cell in first],
                "terms": [self._texts.terms(cell) for cell in last],
            }
        )

    def _allocate_paths(self, cells: Sequence[Cell]) -> Iterator[str]:
        """The path of each."""
        paths = PathAllocator(self._near)
        paths.load([self._paths.get(cell.fingerprint) or cell.id for cell in cells])
        for cell in cells:
            yield paths.allocate(cell, self._paths.get(cell.fingerprint))

    def _update_terms(self, cells: Mapping[int, Cell]) -> int:
        ordinals = sorted(cells)
        return self._change(
            {
                "ordinal": ordinals,
                "terms": [self._texts.terms(cells[ordinal]) for ordinal in ordinals],
            }
        )
