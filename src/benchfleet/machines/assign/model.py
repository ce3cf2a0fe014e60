"""The problem as CP-SAT sees it: a proven bound, and what each machine or slot runs."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from .problem import Placed, Problem
from .room import UNITS, Room
from .walk import GOOD

_SOONER = 0.002  # a plan that is better by less than this part is not looked for


class Model:
    """Machines have room in their slots until the end, which is to be before that of a plan that
    is known. Times are rounded down, so that the bound holds.

    Gangs are told `apart` where all cells take as many slots, and on machines of two slots; else
    those of a width are one part. What keeps a slot waiting for a model that another brings is in
    the bound, but not in which order all is done.
    """

    def __init__(self, problem: Problem, *, known: float, bound: float, apart: bool) -> None:
        from ortools.sat.python import cp_model

        self._problem, self._cp = problem, cp_model
        self._unit = known * (1 - _SOONER) / UNITS
        self._model: Any = cp_model.CpModel()
        self._end = self._model.new_int_var(0, UNITS + 1, "end")
        self._rooms = {
            host: Room(
                problem, host, unit=self._unit, model=self._model, end=self._end, apart=apart
            )
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
            self._model.add(sum(cells for _, cells in mine) == group.count)
        self._forms()
        for room in self._rooms.values():
            room.hold()
        self._model.add(self._end >= min(UNITS, self._units(bound)))
        self._model.minimize(self._end)

    def solved(
        self, *, seed: int, limit: float, seconds: float, told: Callable[[float], None]
    ) -> tuple[Placed, float]:
        """How many cells of each group (by number) each gang of each machine runs, or the first
        of those that are not told apart; and a bound in seconds. `limit` is in the solver's own
        time, a unit of which takes some seconds of one core and which is, other than those, the
        same on every machine. No cells: no plan was found that is sooner. Better bounds are told
        as they come."""
        solver: Any = self._cp.CpSolver()
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = 1
        solver.parameters.linearization_level = 2  # without all of the relaxation, no good bound
        solver.parameters.max_deterministic_time = limit
        solver.parameters.max_time_in_seconds = max(0.01, seconds)
        solver.parameters.relative_gap_limit = GOOD / 5
        solver.best_bound_callback = lambda bound: told(self._seconds(bound))
        status = solver.solve(self._model)
        if status == self._cp.INFEASIBLE:  # no plan ends so soon
            return {}, UNITS * self._unit
        bound = self._seconds(solver.best_objective_bound)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return {}, bound
        return {
            (number, host, self._rooms[host].parts[place].place): count
            for (number, host, place), cells in self._cells.items()
            if (count := int(solver.value(cells)))
        }, bound

    def apart(self, host: str) -> bool:
        """Whether the machine's gangs are told apart."""
        return self._rooms[host].apart

    def _seconds(self, bound: float) -> float:
        return min(UNITS, max(0, ceil(bound - 1e-6))) * self._unit

    def _units(self, seconds: float) -> int:
        return int(seconds / self._unit)

    def _forms(self) -> None:
        """All groups of a block are run in one form."""
        problem, model = self._problem, self._model
        before: dict[Any, Any] = {}  # the form of another block that is like it
        for name, numbers in problem.blocks.items():
            chosen = {form: model.new_bool_var(f"{name}:{form}") for form in problem.forms(name)}
            model.add_exactly_one(chosen.values())
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
