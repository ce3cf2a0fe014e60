"""A bound, and a plan to begin with, where cells can be cut but models cannot: by SCIP.

Which machine has which model is what plans differ by where models take long to bring. With cells
that can be cut few whole numbers are left, and linear programs lead soon to good ones.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .model import Model
from .problem import Counts, Problem
from .relaxed import rounded
from .room import UNITS
from .walk import GOOD

_NODES = 40_000  # of the search, times numbers of cells: where there are many a node takes longer


def cut(
    problem: Problem, *, known: float, bound: float, seed: int, limit: float, seconds: float
) -> tuple[Counts, float]:
    """Whole cells nearest to the best shares that were found, none where there is no such plan; and
    a bound in seconds. `limit` times as much is looked at as usual, for so many seconds at most."""
    from ortools.math_opt.python import mathopt

    rows = _Rows(mathopt.Model())
    model = Model(problem, known=known, bound=bound, rows=rows, cut=True)
    numbers = sum(len(group.ways) for group in problem.groups)
    found: Any = mathopt.solve(
        rows.model,
        mathopt.SolverType.GSCIP,
        params=mathopt.SolveParameters(
            random_seed=seed,
            threads=1,
            node_limit=max(1, round(limit * _NODES / numbers)),
            time_limit=timedelta(seconds=max(0.01, seconds)),
            relative_gap_tolerance=GOOD / 5,
        ),
    )
    if found.termination.reason == mathopt.TerminationReason.INFEASIBLE:
        return {}, model.seconds(UNITS)
    least = model.seconds(found.termination.objective_bounds.dual_bound - 1)  # it rounds numbers
    if not found.has_primal_feasible_solution():
        return {}, least
    values = found.variable_values()
    parts: list[dict[str, float]] = [{} for _ in problem.groups]
    for (number, host, _), cells in model.placed(values.__getitem__).items():
        part = parts[number]
        part[host] = part.get(host, 0.0) + cells / problem.groups[number].count
    return rounded(problem, parts), least


class _Rows:
    """A model for SCIP, with the names that those of CP-SAT have."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.minimize = model.minimize

    def add(self, row: Any) -> None:
        if isinstance(row, bool):  # of no variable at all
            self.model.add_linear_constraint(lb=0 if row else 1, ub=1, expr=0)
        else:
            self.model.add_linear_constraint(row)

    def new_num_var(self, low: int, high: int, name: str) -> Any:
        return self.model.add_variable(lb=low, ub=high, name=name)

    def new_int_var(self, low: int, high: int, name: str) -> Any:
        return self.model.add_integer_variable(lb=low, ub=high, name=name)

    def new_bool_var(self, name: str) -> Any:
        return self.model.add_binary_variable(name=name)
