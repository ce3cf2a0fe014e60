"""Lists of what a phase has to do, as earlier tools keep them: one result name a line."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from benchfleet.domain.cell import Cell
from benchfleet.domain.names import entry_name, path_part

SUFFIX = ".json"


def result_name(cell: Cell) -> str:
    """``<level>_<model>_<config>_<rerun>.json``; looked up, never taken apart."""
    return entry_name(cell.id) + SUFFIX


def by_result_name(cells: Iterable[Cell]) -> dict[str, Cell]:
    """The cells by their result names. Raises ValueError where two would have one name."""
    cells_by_name: dict[str, Cell] = {}
    for cell in cells:
        name = result_name(cell)
        other = cells_by_name.setdefault(name, cell)
        if other != cell:
            raise ValueError(f"{other.id} and {cell.id} would both be called {name}; rename one")
    return cells_by_name


def lists(cells: Iterable[Cell], done: Collection[str], *, rest: str) -> dict[str, list[str]]:
    """The result names of each phase that are not done, by the name of its list. `done` are
    fingerprints; cells of no phase go to the list `rest`. Raises ValueError as `by_result_name`."""
    lists_by_phase: dict[str, list[str]] = {}
    for name, cell in by_result_name(cells).items():
        listed = lists_by_phase.setdefault(path_part(cell.phase or rest), [])
        if cell.fingerprint not in done:
            listed.append(name)
    return lists_by_phase
