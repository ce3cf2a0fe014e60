"""Plans and bounds by CP-SAT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .asking import Answer, Asked
from .model import Model
from .room import UNITS
from .walk import GOOD


def solved(asked: Asked, told: Callable[[float], None] = lambda bound: None) -> Answer:
    """How many cells of each group each gang of each machine runs; of gangs that are not told apart
    the first is named. A unit of the solver's own time takes some seconds of one core and is, other
    than those, the same on every machine. Better bounds are told as they come."""
    from ortools.sat.python import cp_model

    problem, rows = asked.problem, cp_model.CpModel()
    model = Model(problem, known=asked.known, bound=asked.bound, rows=rows, apart=True)
    solver: Any = cp_model.CpSolver()
    solver.parameters.random_seed = asked.seed
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2  # without all of the relaxation, no good bound
    solver.parameters.max_deterministic_time = asked.limit
    solver.parameters.max_time_in_seconds = max(0.01, asked.seconds)
    solver.parameters.relative_gap_limit = GOOD / 5
    solver.best_bound_callback = lambda units: told(model.seconds(units))
    status = solver.solve(model.rows)
    if status == cp_model.INFEASIBLE:  # no plan ends so soon
        return Answer(bound=model.seconds(UNITS))
    least = model.seconds(solver.best_objective_bound)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(bound=least)
    return Answer(
        bound=least,
        cells=model.placed(solver.value),
        apart=frozenset(host for host in problem.slots if model.apart(host)),
    )
