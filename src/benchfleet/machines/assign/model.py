"""The problem in rows that hold of every plan that is soon done: for CP-SAT, and for SCIP."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from .problem import Problem
from .room import UNITS, Room

_SOONER = 0.002  # a plan that is better by less than this part is not looked for


class Model:
    """Machines have room in their slots until the end, which is to be before that of a plan that
    is known. Times are rounded down, so that the bound holds.

    Gangs are told `apart` where all cells take as many slots, and on machines of two slots; else
    those of a width are one part. What keeps a slot waiting for a model that another brings is in
    the bound, but not in which order all is done. Where cells may be `cut`, the end may be late:
    what can be cut is no plan, and one that is late is found sooner.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        known: float,
        bound: float,
        rows: Any,
        apart: bool = False,
        cut: bool = False,
    ) -> None:
        """`rows` is an empty model of CP-SAT's, or what can do as much; to be solved by others."""
        self._problem, self.rows = problem, rows
        self._unit = known * (1 - _SOONER) / UNITS
        end = (
            rows.new_num_var(0, 3 * UNITS, "end") if cut else rows.new_int_var(0, UNITS + 1, "end")
        )
        self._rooms = {
            host: Room(problem, host, unit=self._unit, model=rows, end=end, apart=apart, cut=cut)
            for host in problem.slots
        }
        self._cells: dict[tuple[int, str, int], Any] = {}
        for number, group in enumerate(problem.groups):
            mine = [
                ((number, host, place), cells)
                for host in group.ways
                for place, cells in self._rooms[host].cells(number)
            ]
            self._cells.update(mine)
            rows.add(sum(cells for _, cells in mine) == group.count)
        self._forms()
        for room in self._rooms.values():
            room.hold()
        rows.add(end >= min(UNITS, int(bound / self._unit)))
        rows.minimize(end)

    def placed(self, value: Callable[[Any], float]) -> dict[tuple[int, str, int], Any]:
        """How many cells of each group (by number) each gang of each machine runs, or the first
        of those that are not told apart, by the values of variables."""
        return {
            (number, host, self._rooms[host].parts[place].place): count
            for (number, host, place), cells in self._cells.items()
            if (count := value(cells)) > 0
        }

    def apart(self, host: str) -> bool:
        """Whether the machine's gangs are told apart."""
        return self._rooms[host].apart

    def seconds(self, units: float) -> float:
        """Before which no plan ends, if no end is before so many units."""
        return min(UNITS, max(0, ceil(units - 0.01))) * self._unit

    def _forms(self) -> None:
        """All groups of a block are run in one form."""
        problem, model = self._problem, self.rows
        before: dict[Any, Any] = {}  # the form of another block that is like it
        for name, numbers in problem.blocks.items():
            chosen = {form: model.new_bool_var(f"{name}:{form}") for form in problem.forms(name)}
            model.add(sum(chosen.values()) == 1)
            kind = tuple(sorted((problem.groups[n].count, problem.groups[n].kind) for n in numbers))
            form_of = sum(form * variable for form, variable in chosen.items())
            if kind in before:
                model.add(before[kind] <= form_of)
            before[kind] = form_of
            for (number, host, _), cells in self._cells.items():
                if number in numbers:
                    form = problem.groups[number].ways[host].form
                    if form in chosen:
                        model.add(cells <= problem.groups[number].count * chosen[form])
                    else:
                        model.add(cells == 0)
