"""Which results path a cell gets, where those that are taken are known."""

from __future__ import annotations

from benchfleet.domain.cell import Cell
from benchfleet.errors import LedgerError


def allot(cell: Cell, given: str | None, paths: set[str], folders: set[str]) -> str:
    """The given path, or the first of the cell's two, that is free, entered in both sets.

    `folders` are all that lie above a path. Raises LedgerError where none is free.
    """
    wanted = [given] if given else [cell.path(marked=False), cell.path(marked=True)]
    for path in wanted:
        parts = path.split("/")
        above = {"/".join(parts[:length]) for length in range(1, len(parts))}
        if path not in paths and path not in folders and above.isdisjoint(paths):
            paths.add(path)
            folders |= above
            return path
    raise LedgerError(
        f"the results path {path} belongs to another cell; give the model or the subset of "
        f"{cell.id} another name"
    )
