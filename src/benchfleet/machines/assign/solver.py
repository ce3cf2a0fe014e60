"""The same by CP-SAT: how many cells of each group each machine runs, with a proven bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from math import ceil
from typing import Any

from .lanes import Lanes
from .problem import Counts, Piece, Problem, Solution, Way
from .search import solution, started
from .walk import GOOD, ended, walked

_UNITS = 100_000  # that the makespan is counted in
_TURNS = ((0.4, False), (0.6, True))  # parts of the limit, and whether to tell slots apart where
# cells are few; what the first finds narrows what the second looks at
_SOONER = 0.002  # a plan that is better by less than this part is not looked for
_IN_A_ROW = 4  # so many long cells one after the other in a slot are counted
_WORKERS = 2  # of the solver, each a way to search of its own
_FEW = 1200  # cells times slots


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
    cells = sum(g.count * problem.slots[host] for g in problem.groups for host in g.ways)
    for part, apart in _TURNS if available() else ():
        if ended(plan) <= bound * (1 + GOOD):
            break
        lanes, proven = _Model(problem, plan, apart=apart and cells <= _FEW).solved(
            seed=seed, limit=part * limit
        )
        bound, by = max(bound, proven), "CP-SAT and search"
        if lanes is not None:
            goal = bound * (1 + GOOD)
            other = walked(lanes, goal=goal, seed=seed, times=2, good=True)
            plan = min(plan, other, key=ended)
    return solution(plan, bound=bound, by=by)


class _Model:
    """The problem as CP-SAT sees it: machines have room in their slots until the end, which is to
    be before that of a plan that is known. Times are rounded down, so that the bound holds.

    A part of a machine is one of its slots where they are told `apart` and each cell takes one,
    else all of them.
    """

    def __init__(self, problem: Problem, known: Sequence[Piece], *, apart: bool) -> None:
        from ortools.sat.python import cp_model

        self._problem, self._cp, self._apart = problem, cp_model, apart
        self._unit = ended(known) * (1 - _SOONER) / _UNITS
        wide = {
            host for group in problem.groups for host, way in group.ways.items() if way.width > 1
        }
        self._parts = {
            host: slots if apart and host not in wide else 1
            for host, slots in problem.slots.items()
        }
        self._hint: Counter[tuple[int, str, int]] = Counter()
        for piece in known:
            if piece.group is not None:
                part = piece.slots[0] if self._parts[piece.host] > 1 else 0
                self._hint[piece.group, piece.host, part] += 1
        self._loaded = Counter(  # how many load each model
            (host, model) for host, model, _ in {(p.host, p.model, p.slots) for p in known}
        )
        self._model: Any = cp_model.CpModel()
        self._end = self._model.new_int_var(0, _UNITS + 1, "end")
        self._cells: dict[tuple[int, str, int], Any] = {}
        for number, group in enumerate(problem.groups):
            mine = []
            for host, way in group.ways.items():
                if self._first(host, way) + self._units(way.seconds) <= _UNITS + 1:
                    for part in range(self._parts[host]):
                        cells = self._model.new_int_var(0, group.count, f"x{number}@{host}/{part}")
                        self._model.add_hint(cells, self._hint[number, host, part])
                        self._cells[number, host, part] = cells
                        mine.append(cells)
            self._model.add(sum(mine) == group.count)
        self._forms()
        for host in problem.slots:
            self._in_time(host)
        self._model.minimize(self._end)

    def solved(self, *, seed: int, limit: float) -> tuple[Lanes | None, float]:
        """What each slot runs, and a bound in seconds."""
        solver: Any = self._cp.CpSolver()
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = _WORKERS if self._apart else 1
        solver.parameters.interleave_search = self._apart  # or several would not repeat a plan
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
        counts: Counts = Counter()
        placed: dict[tuple[int, str, int], int] = {}
        for (number, host, part), cells in self._cells.items():
            if count := int(solver.value(cells)):
                counts[number, host] += count
                if self._parts[host] > 1:
                    placed[number, host, part] = count
        return Lanes(self._problem, counts, placed), bound

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
        parts = range(self._parts[host])
        slots = problem.slots[host] // len(parts)  # of each part
        ways = {
            number: problem.groups[number].ways[host]
            for number, where, part in self._cells
            if (where, part) == (host, 0)
        }
        area: list[list[Any]] = [[] for _ in parts]
        for name, width in sorted({(way.model, way.width) for way in ways.values()}):
            mine = [n for n, way in ways.items() if (way.model, way.width) == (name, width)]
            load = self._units(problem.load(host, name))
            bring = self._units(problem.transfer(host, name))
            room = _UNITS + 1 - load - bring
            here, have, brought = self._having(host, name, mine, bring=bool(bring))
            for part, has in enumerate(have):
                work = sum(
                    self._cells[number, host, part] * self._units(ways[number].seconds)
                    for number in mine
                )
                loaded: Any = has
                if (gangs := slots // width) > 1 and load:  # as many load it as cells need in time
                    loaded = model.new_int_var(0, gangs, f"z{name}@{host}")
                    model.add_hint(loaded, self._loaded[host, name])
                    model.add(loaded >= here)
                    model.add(work <= room * loaded)
                else:
                    model.add(work <= gangs * room * has)
                area[part].append(width * (work + load * loaded) + bring * brought[part])
        for part in parts:
            model.add(sum(area[part]) <= slots * self._end)
            for width in sorted({way.width for way in ways.values()}):
                alike = {n: way for n, way in ways.items() if way.width == width}
                self._long(host, part, alike, slots // width)

    def _having(
        self, host: str, name: str, mine: Sequence[int], *, bring: bool
    ) -> tuple[Any, list[Any], list[Any]]:
        """Whether the machine has the model, which of its parts have, and which of them brings it:
        those with cells of these groups have."""
        problem, model = self._problem, self._model
        parts = range(self._parts[host])
        now = [any(self._hint[number, host, part] for number in mine) for part in parts]
        here = model.new_bool_var(f"y{name}@{host}")
        model.add_hint(here, any(now))
        have, brought = [here], [here]
        if len(parts) > 1:
            have = [model.new_bool_var(f"y{name}@{host}/{part}") for part in parts]
            brought = (
                [model.new_bool_var(f"b{name}@{host}/{part}") for part in parts]
                if bring
                else [0 for _ in parts]
            )
            for part in parts:
                model.add_hint(have[part], now[part])
                model.add_implication(have[part], here)
                if bring:
                    model.add_hint(brought[part], now[part] and not any(now[:part]))
                    model.add_implication(brought[part], have[part])
            model.add(sum(have) >= here)
            if bring:
                model.add(sum(brought) == here)
        for number in mine:
            count = problem.groups[number].count
            cells = [self._cells[number, host, part] for part in parts]
            if len(parts) > 1:
                model.add(sum(cells) <= count * here)
            for part in parts:
                model.add(cells[part] <= count * have[part])
        return here, have, brought

    def _long(self, host: str, part: int, ways: dict[int, Way], gangs: int) -> None:
        """Cells so long that only few of them can follow each other are no more than that."""
        first = min(self._first(host, way) for way in ways.values())
        for many in range(1, _IN_A_ROW + 1):
            long = [
                number
                for number, way in ways.items()
                if (many + 1) * self._units(way.seconds) > _UNITS + 1 - first
            ]
            if sum(self._problem.groups[number].count for number in long) > many * gangs:
                cells = [self._cells[number, host, part] for number in long]
                self._model.add(sum(cells) <= many * gangs)

    def _forms(self) -> None:
        """All groups of a block are run in one form."""
        problem, model = self._problem, self._model
        for name, numbers in problem.blocks.items():
            chosen = {form: model.new_bool_var(f"{name}:{form}") for form in problem.forms(name)}
            model.add_exactly_one(chosen.values())
            now = {
                problem.groups[number].ways[host].form
                for number, host, _ in self._hint
                if number in numbers
            }
            for form, variable in chosen.items():
                model.add_hint(variable, form in now)
            for number, host, part in self._cells:
                if number not in numbers:
                    continue
                form, cells = (
                    problem.groups[number].ways[host].form,
                    self._cells[number, host, part],
                )
                if form in chosen:
                    model.add(cells <= problem.groups[number].count * chosen[form])
                else:
                    model.add(cells == 0)
