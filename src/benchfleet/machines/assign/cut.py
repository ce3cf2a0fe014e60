"""A bound, and a plan to begin with, where cells can be cut but models cannot: by SCIP.

Which machine has which model is what plans differ by where models take long to bring. With cells
that can be cut few whole numbers are left, and linear programs lead soon to good ones.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .asking import Answer, Asked
from .model import Model
from .relaxed import rounded
from .room import UNITS
from .walk import GOOD

_NODES = 40_000  # of the search, times numbers of cells: where there are many a node takes longer


def cut(asked: Asked) -> Answer:
    """Whole cells nearest to the best shares that were found, none where there is no such plan. The
    limit is how many times as much is looked at as usual."""
    from ortools.math_opt.python import mathopt

    rows, problem = _Rows(mathopt.Model()), asked.problem
    model = Model(problem, known=asked.known, bound=asked.bound, rows=rows, cut=True)
    numbers = sum(len(group.ways) for group in problem.groups)
    found: Any = mathopt.solve(
        rows.model,
        mathopt.SolverType.GSCIP,
        params=mathopt.SolveParameters(
            random_seed=asked.seed,
            threads=1,
            node_limit=max(1, round(asked.limit * _NODES / numbers)),
            time_limit=timedelta(seconds=max(0.01, asked.seconds)),
            relative_gap_tolerance=GOOD / 5,
        ),
    )
    if found.termination.reason == mathopt.TerminationReason.INFEASIBLE:
        return Answer(bound=model.seconds(UNITS))
    least = model.seconds(found.termination.objective_bounds.dual_bound - 1)  # it rounds numbers
    if not found.has_primal_feasible_solution():
        return Answer(bound=least)
    values = found.variable_values()
    parts: list[dict[str, float]] = [{} for _ in problem.groups]
    for (number, host, _), cells in model.placed(values.__getitem__).items():
        part = parts[number]
        part[host] = part.get(host, 0.0) + cells / problem.groups[number].count
    counts = rounded(problem, parts)
    return Answer(bound=least, cells={(n, host, 0): count for (n, host), count in counts.items()})


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
