"""The same by CP-SAT: how many cells of each group each machine runs, with a proven bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from math import ceil
from typing import Any

from .problem import Counts, Piece, Problem, Solution, Way
from .search import counted, solution, started
from .walk import GOOD, ended, walked

_UNITS = 100_000  # that the makespan is counted in
_TURNS = (0.3, 0.7)  # parts of the limit; what the first finds narrows what the second looks at
_MOVES = 60  # for each cell, from what the solver found
_SOONER = 0.002  # a plan that is better by less than this part is not looked for
_IN_A_ROW = 4  # so many long cells one after the other in a slot are counted


def available() -> bool:
    """Whether OR-Tools is installed (``pip install 'benchfleet[plan]'``)."""
    return find_spec("ortools") is not None


def solved(problem: Problem, *, seed: int = 0, limit: float = 1.0) -> Solution:
    """A plan by search and solver together. `limit` is in the solver's own time, a unit of which
    takes some seconds of one core and which is, other than those, the same on every machine.

    Raises ValueError where a group can run nowhere.
    """
    plan, bound = started(problem, seed=seed)
    by = "search"
    for part in _TURNS if available() else ():
        if ended(plan) <= bound * (1 + GOOD):
            break
        counts, proven = _Model(problem, plan).solved(seed=seed, limit=part * limit)
        bound, by = max(bound, proven), "CP-SAT and search"
        if counts is not None:
            goal = bound * (1 + GOOD)
            other = walked(problem, counts, goal=goal, seed=seed, moves=_MOVES)
            plan = min(plan, other, key=ended)
    return solution(plan, bound=bound, by=by)


class _Model:
    """The problem as CP-SAT sees it: machines have room in their slots until the end, which is to
    be before that of a plan that is known. Times are rounded down, so that the bound holds."""

    def __init__(self, problem: Problem, known: Sequence[Piece]) -> None:
        from ortools.sat.python import cp_model

        self._problem, self._cp = problem, cp_model
        self._unit = ended(known) * (1 - _SOONER) / _UNITS
        self._hint = counted(known)
        self._loaded = Counter(  # how many load each model
            (host, model) for host, model, _ in {(p.host, p.model, p.slots) for p in known}
        )
        self._model: Any = cp_model.CpModel()
        self._end = self._model.new_int_var(0, _UNITS + 1, "end")
        self._cells: dict[tuple[int, str], Any] = {}
        for number, group in enumerate(problem.groups):
            for host, way in group.ways.items():
                if self._first(host, way) + self._units(way.seconds) <= _UNITS + 1:
                    cells = self._model.new_int_var(0, group.count, f"x{number}@{host}")
                    self._model.add_hint(cells, self._hint.get((number, host), 0))
                    self._cells[number, host] = cells
            mine = [
                self._cells[number, host] for host in group.ways if (number, host) in self._cells
            ]
            self._model.add(sum(mine) == group.count)
        self._forms()
        for host in problem.slots:
            self._in_time(host)
        self._model.minimize(self._end)

    def solved(self, *, seed: int, limit: float) -> tuple[Counts | None, float]:
        """Counts, and a bound in seconds."""
        solver: Any = self._cp.CpSolver()
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = 1  # several would not repeat a plan
        solver.parameters.linearization_level = 2  # without all of the relaxation, no good bound
        solver.parameters.max_deterministic_time = limit
        solver.parameters.max_time_in_seconds = 20 * limit + 10
        solver.parameters.relative_gap_limit = GOOD / 5
        status = solver.solve(self._model)
        if status == self._cp.INFEASIBLE:  # no plan ends so soon
            return None, _UNITS * self._unit
        bound = min(_UNITS, max(0, ceil(solver.best_objective_bound - 1e-6))) * self._unit
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return None, bound
        found = {key: int(solver.value(cells)) for key, cells in self._cells.items()}
        return {key: count for key, count in found.items() if count}, bound

    def _units(self, seconds: float) -> int:
        return int(seconds / self._unit)

    def _first(self, host: str, way: Way) -> int:
        """When a cell can begin at the soonest."""
        problem = self._problem
        return self._units(problem.load(host, way.model)) + self._units(
            problem.transfer(host, way.model)
        )

    def _in_time(self, host: str) -> None:
        """What the machine runs has room in its slots until the end."""
        problem, model = self._problem, self._model
        slots = problem.slots[host]
        ways = {
            number: problem.groups[number].ways[host]
            for number, where in self._cells
            if where == host
        }
        area: list[Any] = []
        for name, width in sorted({(way.model, way.width) for way in ways.values()}):
            mine = [n for n, way in ways.items() if (way.model, way.width) == (name, width)]
            load = self._units(problem.load(host, name))
            bring = self._units(problem.transfer(host, name))
            here = model.new_bool_var(f"y{name}@{host}")
            model.add_hint(here, any(self._hint.get((number, host)) for number in mine))
            for number in mine:
                model.add(self._cells[number, host] <= problem.groups[number].count * here)
            work = sum(
                self._cells[number, host] * self._units(ways[number].seconds) for number in mine
            )
            room = _UNITS + 1 - load - bring
            loaded: Any = here
            if (gangs := slots // width) > 1 and load:  # as many load it as its cells need in time
                loaded = model.new_int_var(0, gangs, f"z{name}@{host}")
                model.add_hint(loaded, self._loaded[host, name])
                model.add(loaded >= here)
                model.add(work <= room * loaded)
            else:
                model.add(work <= gangs * room * here)
            area.append(width * (work + load * loaded) + bring * here)
        model.add(sum(area) <= slots * self._end)
        for width in sorted({way.width for way in ways.values()}):
            self._long(
                host, {n: way for n, way in ways.items() if way.width == width}, slots // width
            )

    def _long(self, host: str, ways: dict[int, Way], gangs: int) -> None:
        """Cells so long that only few of them can follow each other are no more than that."""
        first = min(self._first(host, way) for way in ways.values())
        for many in range(1, _IN_A_ROW + 1):
            long = [
                number
                for number, way in ways.items()
                if (many + 1) * self._units(way.seconds) > _UNITS + 1 - first
            ]
            if sum(self._problem.groups[number].count for number in long) > many * gangs:
                cells = [self._cells[number, host] for number in long]
                self._model.add(sum(cells) <= many * gangs)

    def _forms(self) -> None:
        """All groups of a block are run in one form."""
        problem, model = self._problem, self._model
        for name, numbers in problem.blocks.items():
            chosen = {form: model.new_bool_var(f"{name}:{form}") for form in problem.forms(name)}
            model.add_exactly_one(chosen.values())
            now = {
                problem.groups[number].ways[host].form
                for number, host in self._hint
                if number in numbers
            }
            for form, variable in chosen.items():
                model.add_hint(variable, form in now)
            for number in numbers:
                group = problem.groups[number]
                for host, way in group.ways.items():
                    if (number, host) not in self._cells:
                        continue
                    if way.form in chosen:
                        model.add(self._cells[number, host] <= group.count * chosen[way.form])
                    else:
                        model.add(self._cells[number, host] == 0)
