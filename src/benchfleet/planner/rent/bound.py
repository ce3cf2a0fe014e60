"""What no plan of rented machines can be cheaper than.

Machines of a lot are equally fast, so offers differ by price alone. With the number y of offers
chosen, b of busy seconds, x of cells and z of loaded models this is a mixed-integer program:

    minimise  Σ price · (setup · y + b)
    each cell runs somewhere · b ≥ Σ cells and loads · x ≤ n · z · z ≤ y
    b ≤ (deadline − setup) · y

Cells may be split in it, so its dual bound (SCIP in OR-Tools) holds for every plan. Without
OR-Tools the bound is what the cells cost where they are cheapest, with one setup for each lot that
is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from math import inf
from typing import Any

from benchfleet.planner.rent.problem import HOUR_S, CellGroup, Lot, RentProblem
from benchfleet.planner.solver.solver import available

_LIMIT_S = 2.0
_TOLERANCE = 1e-4  # of a bound, for what SCIP rounds
_MAX_SPAN_S = 10 * 365 * 86_400.0  # instead of no deadline


@dataclass(frozen=True, kw_only=True)
class CostBound:
    """Millionths that every plan costs at least; infinite if no plan meets the deadline."""

    cost: float
    counts: dict[str, int] | None = None  # machines of each lot, as the solution has them


def cost_bound(problem: RentProblem, deadline: float = inf) -> CostBound:
    """The bound for plans that end within so many seconds."""
    if not all(group.lots for group in problem.groups):
        raise ValueError("some cells can run nowhere")
    if available():
        return _by_scip(problem, min(deadline, _MAX_SPAN_S))
    return CostBound(cost=_closed_form(problem))


def _closed_form(problem: RentProblem) -> float:
    cost = sum(
        group.count
        * min(
            _hourly(problem.by_name[name]) * _slot_seconds(problem, group, name)
            for name in group.lots
        )
        for group in problem.groups
    )
    needed = {next(iter(group.lots)) for group in problem.groups if len(group.lots) == 1}
    setups = sum(_hourly(lot) * lot.setup.expected for lot in problem.lots if lot.name in needed)
    return (cost + setups) / HOUR_S


def _hourly(lot: Lot) -> int:
    return lot.price(0) if lot.is_rented else 0


def _slot_seconds(problem: RentProblem, group: CellGroup, lot: str) -> float:
    """Seconds of a whole machine that one cell takes."""
    return group.seconds.expected * group.width / problem.by_name[lot].slots


def _by_scip(problem: RentProblem, deadline: float) -> CostBound:
    from ortools.math_opt.python import mathopt

    rows = mathopt.Model()
    offers = [(lot, number) for lot in problem.lots for number in range(lot.most)]
    chosen: dict[tuple[str, int], Any] = {}
    busy: dict[tuple[str, int], Any] = {}
    cost: Any = 0.0
    for lot, number in offers:
        key = lot.name, number
        room = max(0.0, deadline - lot.setup.expected)
        chosen[key] = rows.add_binary_variable(name="")
        busy[key] = rows.add_variable(lb=0, ub=room, name="")  # seconds of the whole machine
        rows.add_linear_constraint(busy[key] <= room * chosen[key])
        price = lot.price(number) / HOUR_S
        cost = cost + price * (lot.setup.expected * chosen[key] + busy[key])
        if number:
            rows.add_linear_constraint(chosen[key] <= chosen[lot.name, number - 1])
    work: dict[tuple[str, int], Any] = dict.fromkeys(chosen, 0.0)
    loaded: dict[tuple[tuple[str, int], str], Any] = {}
    for (lot, number), model in product(offers, dict.fromkeys(g.model for g in problem.groups)):
        if not model or not any(g.model == model and lot.name in g.lots for g in problem.groups):
            continue
        key = lot.name, number
        loaded[key, model] = rows.add_binary_variable(name="")
        rows.add_linear_constraint(loaded[key, model] <= chosen[key])
        work[key] = work[key] + problem.load(model) / lot.slots * loaded[key, model]
    for group in problem.groups:
        cells: Any = 0.0
        for lot, number in offers:
            if lot.name not in group.lots:
                continue
            key = lot.name, number
            share = rows.add_variable(lb=0, ub=group.count, name="")
            present = loaded[key, group.model] if group.model else chosen[key]
            rows.add_linear_constraint(share <= group.count * present)
            work[key] = work[key] + _slot_seconds(problem, group, lot.name) * share
            cells = cells + share
        rows.add_linear_constraint(cells == group.count)
    for key, seconds in work.items():
        if not isinstance(seconds, float):
            rows.add_linear_constraint(busy[key] >= seconds)
    rows.minimize(cost)
    parameters = mathopt.SolveParameters(
        threads=1, time_limit=timedelta(seconds=_LIMIT_S), relative_gap_tolerance=_TOLERANCE
    )
    result = mathopt.solve(rows, mathopt.SolverType.GSCIP, params=parameters)
    if result.termination.reason == mathopt.TerminationReason.INFEASIBLE:
        return CostBound(cost=inf)
    dual = max(0.0, result.termination.objective_bounds.dual_bound) * (1 - _TOLERANCE)
    if not result.has_primal_feasible_solution():
        return CostBound(cost=dual)
    values = result.variable_values()
    counts = {
        lot.name: sum(round(values[chosen[lot.name, number]]) for number in range(lot.most))
        for lot in problem.lots
    }
    return CostBound(cost=dual, counts=counts)
