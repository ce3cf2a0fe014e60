"""Which results path a cell gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Any

from benchfleet.domain.cell import Cell
from benchfleet.errors import LedgerError

# The allotted paths among the first, with false, and those of the second that hold one, with true.
Near = Callable[[Collection[str], Collection[str]], Iterable[Any]]


class PathAllocator:
    """Allots paths while cells are entered: what else is taken is asked of the ledger, for many at
    once; or nothing else is."""

    def __init__(self, near: Near = lambda lineage, paths: ()) -> None:
        self._near = near
        self._allocated: set[str] = set()
        self._folders: set[str] = set()  # all that lie above a path

    def copy(self) -> PathAllocator:
        """The same, to be allotted apart."""
        copy = PathAllocator(self._near)
        copy._allocated, copy._folders = set(self._allocated), set(self._folders)
        return copy

    def load(self, paths: Collection[str]) -> None:
        """See whether these are free."""
        lineage = set(paths)
        for path in paths:
            lineage |= _above(path)
        for path, holds in self._near(lineage, paths):
            (self._folders if holds else self._allocated).add(path)

    def allocate(self, cell: Cell, requested_path: str | None) -> str:
        """The given path, or the first of the cell's two, that is free; `load` has seen the
        first. Raises LedgerError where none is free."""
        path = requested_path or cell.id
        if self._enter(path):
            return path
        if not requested_path:
            path = cell.path(marked=True)
            self.load([path])
            if self._enter(path):
                return path
        raise LedgerError(
            f"the results path {path} belongs to another cell; give the model or the subset of "
            f"{cell.id} another name"
        )

    def _enter(self, path: str) -> bool:
        above = _above(path)
        free = path not in self._allocated and path not in self._folders
        if free := free and above.isdisjoint(self._allocated):
            self._allocated.add(path)
            self._folders |= above
        return free


@lru_cache(maxsize=4096)
def _with_above(folder: str) -> frozenset[str]:
    """A folder and those that it lies in; "" is none."""
    return _above(folder) | {folder} if folder else frozenset()


def _above(path: str) -> frozenset[str]:
    """The folders that a path lies in, which neighbours share."""
    return _with_above(path.rpartition("/")[0])
