"""Cells that ask servers elsewhere, in a plan: they take no slot, so no solver is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle

from benchfleet.domain.cell import Cell
from benchfleet.machines.probe.report import Capability
from benchfleet.planner.assignment import PlannedCell


def plan_served_cells(
    cells: Sequence[Cell],
    machines: Sequence[Capability],
    *,
    barred: Callable[[Cell, Capability], str],
    begin: float,
) -> Iterator[PlannedCell | tuple[Cell, str]]:
    """Each cell on a machine that may ask its server, or with the reason why none may.

    All cells of one server go to the same machine if the rules allow it, so that no two machines
    ask it at the same time. The servers take turns among the machines.
    """
    turns = cycle(machines)
    home: dict[str, Capability] = {}
    for cell in cells:
        first = home.setdefault(cell.need.endpoint, next(turns))
        others = [first, *(one for one in machines if one is not first)]
        allowed = next((one for one in others if not barred(cell, one)), None)
        if allowed is None:
            yield cell, barred(cell, first)
            continue
        yield PlannedCell(
            cell=cell, declared=cell, host=allowed.hostname, slots=(), begin=begin, end=begin
        )
