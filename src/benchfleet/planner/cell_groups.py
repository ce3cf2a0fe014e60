"""Groups of cells that are alike to the planner, and the cells that a solution plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchfleet.domain.cell import Cell
from benchfleet.planner.assignment import PlannedCell
from benchfleet.planner.solver.problem import Problem, Solution


@dataclass
class CellGroup:
    """Cells that are alike to the planner."""

    cells: list[tuple[Cell, list[Cell]]] = field(default_factory=list)  # as declared, and its forms


def planned_cells(
    lots: Sequence[CellGroup], problem: Problem, solution: Solution, begin: float
) -> Iterator[PlannedCell]:
    """Each cell once: those of a lot in the campaign's order, as the plan has room for them."""
    waiting = [iter(lot.cells) for lot in lots]
    for piece in sorted(solution.pieces, key=lambda one: (one.begin, one.host, one.slots)):
        if piece.group is None:
            continue
        declared, forms = next(waiting[piece.group])
        yield PlannedCell(
            cell=forms[problem.groups[piece.group].ways[piece.host].form],
            declared=declared,
            host=piece.host,
            slots=piece.slots,
            begin=begin + piece.begin,
            end=begin + piece.end,
        )
