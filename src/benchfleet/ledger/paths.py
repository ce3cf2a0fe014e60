"""Which results path a cell gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Any

from benchfleet.domain.cell import Cell
from benchfleet.errors import LedgerError

# The allotted paths among the first, with false, and those of the second that hold one, with true.
Near = Callable[[Collection[str], Collection[str]], Iterable[Any]]


class Paths:
    """Allots paths while cells are entered: what else is taken is asked of the ledger, for many at
    once; or nothing else is."""

    def __init__(self, near: Near = lambda lineage, paths: ()) -> None:
        self._near = near
        self._taken: set[str] = set()
        self._folders: set[str] = set()  # all that lie above a path

    def copy(self) -> Paths:
        """The same, to be allotted apart."""
        made = Paths(self._near)
        made._taken, made._folders = set(self._taken), set(self._folders)
        return made

    def look_at(self, paths: Collection[str]) -> None:
        """See whether these are free."""
        lineage = set(paths)
        for path in paths:
            lineage |= _above(path)
        for path, holds in self._near(lineage, paths):
            (self._folders if holds else self._taken).add(path)

    def allot(self, cell: Cell, given: str | None) -> str:
        """The given path, or the first of the cell's two, that is free; `look_at` has seen the
        first. Raises LedgerError where none is free."""
        path = given or cell.id
        if self._enter(path):
            return path
        if not given:
            path = cell.path(marked=True)
            self.look_at([path])
            if self._enter(path):
                return path
        raise LedgerError(
            f"the results path {path} belongs to another cell; give the model or the subset of "
            f"{cell.id} another name"
        )

    def _enter(self, path: str) -> bool:
        above = _above(path)
        free = path not in self._taken and path not in self._folders
        if free := free and above.isdisjoint(self._taken):
            self._taken.add(path)
            self._folders |= above
        return free


@lru_cache(maxsize=4096)
def _with_above(folder: str) -> frozenset[str]:
    """A folder and those that it lies in; "" is none."""
    return _above(folder) | {folder} if folder else frozenset()


def _above(path: str) -> frozenset[str]:
    """The folders that a path lies in, which neighbours share."""
    return _with_above(path.rpartition("/")[0])
