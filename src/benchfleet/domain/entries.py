"""The lists of what a phase has to do, as the earlier tools keep them: one result name a line."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .cell import Cell
from .names import entry_name, path_part

SUFFIX = ".json"


def result_name(cell: Cell) -> str:
    """``<level>_<model>_<config>_<rerun>.json``; looked up, never taken apart."""
    return entry_name(cell.id) + SUFFIX


def lists(cells: Iterable[Cell], done: Collection[str], *, rest: str) -> dict[str, list[str]]:
    """The result names of each phase that are not done, by the name of its list; `done` are
    fingerprints, and cells of no phase go to the list `rest`.

    Raises ValueError where two cells would have one name: nobody could tell their results apart.
    """
    found: dict[str, list[str]] = {}
    named: dict[str, Cell] = {}
    for cell in cells:
        name = result_name(cell)
        other = named.setdefault(name, cell)
        if other != cell:
            raise ValueError(f"{other.id} and {cell.id} would both be called {name}; rename one")
        listed = found.setdefault(path_part(cell.phase or rest), [])
        if cell.fingerprint not in done:
            listed.append(name)
    return found
