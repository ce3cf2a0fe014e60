"""The same by CP-SAT: how many cells of each group each machine runs, with a proven bound."""

from __future__ import annotations

from importlib.util import find_spec
from math import ceil
from typing import Any

from .problem import Counts, Problem, Solution
from .search import GOOD, Plan, improve, searched, solution

_UNITS = 200_000  # that the makespan is counted in


def available() -> bool:
    """Whether OR-Tools is installed (``pip install 'benchfleet[plan]'``)."""
    return find_spec("ortools") is not None


def solved(problem: Problem, *, seed: int = 0, limit: float = 1.0) -> Solution:
    """A plan by search and solver together. `limit` is in the solver's own time, a unit of which
    takes some seconds of one core and which is, other than those, the same on every machine.

    Raises ValueError where a group can run nowhere.
    """
    plan, bound = searched(problem, seed=seed)
    if not available() or plan.makespan <= bound * (1 + GOOD):
        return solution(plan, bound=bound, by="search")
    counts, proven = _solve(problem, plan, seed=seed, limit=limit)
    bound = max(bound, proven)
    if counts is not None:
        other = Plan(problem, counts)
        improve(other, seed=seed, least=bound * (1 + GOOD))
        plan = min(plan, other, key=lambda one: one.makespan)
    return solution(plan, bound=bound, by="CP-SAT and search")


def _solve(problem: Problem, hint: Plan, *, seed: int, limit: float) -> tuple[Counts | None, float]:
    """Counts and a bound in seconds. Times are rounded down, so that the bound holds."""
    from ortools.sat.python import cp_model

    unit = hint.makespan / _UNITS
    model: Any = cp_model.CpModel()
    end = model.new_int_var(0, _UNITS + 1, "end")
    cells: dict[tuple[int, str], Any] = {}
    for number, group in enumerate(problem.groups):
        for host in group.ways:
            cells[number, host] = model.new_int_var(0, group.count, f"x{number}@{host}")
            model.add_hint(cells[number, host], hint.held(host).get(number, 0))
        model.add(sum(cells[number, host] for host in group.ways) == group.count)
    _forms(model, problem, cells, hint)
    for host in problem.slots:
        _in_time(model, problem, host, cells, end, hint, unit)
    model.minimize(end)
    solver: Any = cp_model.CpSolver()
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = 1  # several would not repeat a plan, or take as much time each
    solver.parameters.max_deterministic_time = limit
    solver.parameters.max_time_in_seconds = 20 * limit + 10
    solver.parameters.relative_gap_limit = GOOD / 5
    status = solver.solve(model)
    bound = max(0, ceil(solver.best_objective_bound - 1e-6)) * unit
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, 0.0 if status == cp_model.INFEASIBLE else bound
    return {key: int(solver.value(cell)) for key, cell in cells.items()}, bound


def _in_time(
    model: Any,
    problem: Problem,
    host: str,
    cells: dict[tuple[int, str], Any],
    end: Any,
    hint: Plan,
    unit: float,
) -> None:
    """What the machine runs has room in its slots until the end."""
    ways = {n: way for n, group in enumerate(problem.groups) if (way := group.ways.get(host))}
    slots = problem.slots[host]
    area: list[Any] = []
    for name, width in sorted({(way.model, way.width) for way in ways.values()}):
        mine = [n for n, way in ways.items() if (way.model, way.width) == (name, width)]
        load = int(problem.load(host, name) / unit)
        bring = int(problem.transfer(host, name) / unit)
        seconds = {number: int(ways[number].seconds / unit) for number in mine}
        here = model.new_bool_var(f"y{name}@{host}")
        model.add_hint(here, any(hint.held(host).get(number, 0) for number in mine))
        for number in mine:
            model.add(cells[number, host] <= problem.groups[number].count * here)
        work = sum(cells[number, host] * seconds[number] for number in mine)
        loaded: Any = here
        if (gangs := slots // width) > 1 and load:  # as many load it as its cells need in time
            loaded = model.new_int_var(0, gangs, f"z{name}@{host}")
            model.add(loaded >= here)
            model.add(work <= max(1, _UNITS + 1 - load) * loaded)
        area.append(width * (work + load * loaded) + bring * here)
    model.add(sum(area) <= slots * end)


def _forms(model: Any, problem: Problem, cells: dict[tuple[int, str], Any], hint: Plan) -> None:
    """All groups of a block are run in one form."""
    for name, numbers in problem.blocks.items():
        chosen = {form: model.new_bool_var(f"{name}:{form}") for form in problem.forms(name)}
        model.add_exactly_one(chosen.values())
        now = hint.form(numbers[0])
        for form, variable in chosen.items():
            model.add_hint(variable, form == now)
        for number in numbers:
            group = problem.groups[number]
            for host, way in group.ways.items():
                if way.form in chosen:
                    model.add(cells[number, host] <= group.count * chosen[way.form])
                else:
                    model.add(cells[number, host] == 0)
