"""Plans and bounds by CP-SAT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .model import Model
from .problem import Placed, Problem
from .room import UNITS
from .walk import GOOD


def solved(
    problem: Problem,
    *,
    known: float,
    bound: float,
    seed: int,
    limit: float,
    seconds: float,
    told: Callable[[float], None],
) -> tuple[Placed, frozenset[str], float]:
    """How many cells of each group (by number) each gang of each machine runs, machines whose gangs
    are told apart (of others the first is named), and a bound in seconds. `limit` is in the
    solver's own time, a unit of which takes some seconds of one core and which is, other than
    those, the same on every machine. No cells: no plan was found that is sooner. Better bounds are
    told as they come."""
    from ortools.sat.python import cp_model

    model = Model(problem, known=known, bound=bound, rows=cp_model.CpModel(), apart=True)
    solver: Any = cp_model.CpSolver()
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2  # without all of the relaxation, no good bound
    solver.parameters.max_deterministic_time = limit
    solver.parameters.max_time_in_seconds = max(0.01, seconds)
    solver.parameters.relative_gap_limit = GOOD / 5
    solver.best_bound_callback = lambda units: told(model.seconds(units))
    hosts = frozenset(host for host in problem.slots if model.apart(host))
    status = solver.solve(model.rows)
    if status == cp_model.INFEASIBLE:  # no plan ends so soon
        return {}, hosts, model.seconds(UNITS)
    least = model.seconds(solver.best_objective_bound)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return {}, hosts, least
    return model.placed(solver.value), hosts, least
