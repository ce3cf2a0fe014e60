"""A lower bound and a starting point from a mixed-integer relaxation, solved by SCIP.

In a large problem cells may be split; which machine holds which model may not. Plans differ most by
that where models take long to transfer, and few integers remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from typing import Any

from .bound import round_shares
from .problem import GOOD_GAP, Counts, Problem
from .schedule import gangs

_SCALE = 1000.0  # the length of the known plan, in the units of the model
_TOLERANCE = 1e-4  # of a bound, for what SCIP rounds
_NODES = 40_000  # of branch and bound, divided by the number of cell variables
_TRANSFERS = 8  # about so many transfer times get a constraint on each machine
_EXACT_VARIABLES = 1200  # groups times slots; of more, models take too long to solve
_IN_A_ROW = 4  # longest sequence of long cells in a slot that gets a constraint


@dataclass(frozen=True, kw_only=True)
class Relaxation:
    """What the relaxation proved and suggests."""

    bound: float  # seconds; no plan is shorter
    counts: Counts = field(default_factory=dict)  # empty: nothing shorter is suggested


def relax(
    problem: Problem, *, known_s: float, seed: int, effort: float, seconds: float
) -> Relaxation:
    """A bound for all plans, and a suggestion that is shorter than a `known` plan (seconds).

    `effort` 1.0 is the usual number of nodes, so that a seed repeats the result; `seconds` is the
    limit by the clock.
    """
    from ortools.math_opt.python import mathopt

    model = _Model(problem, mathopt.Model(), unit=known_s / _SCALE)
    result = mathopt.solve(
        model.rows,
        mathopt.SolverType.GSCIP,
        params=mathopt.SolveParameters(
            random_seed=seed,
            threads=1,
            node_limit=max(1, round(effort * _NODES / len(model.cells))),
            time_limit=timedelta(seconds=max(0.01, seconds)),
            relative_gap_tolerance=GOOD_GAP / 5,
        ),
    )
    if result.termination.reason == mathopt.TerminationReason.INFEASIBLE:
        return Relaxation(bound=known_s * (1 - _TOLERANCE))
    dual = result.termination.objective_bounds.dual_bound * model.unit
    bound = max(0.0, min(known_s, dual)) * (1 - _TOLERANCE)
    if not result.has_primal_feasible_solution():
        return Relaxation(bound=bound)
    values = result.variable_values()
    shares: list[dict[str, float]] = [{} for _ in problem.groups]
    for (number, host), parts in model.cells.items():
        if (cells := sum(values[part] for part in parts)) > 0:
            shares[number][host] = cells / problem.groups[number].count
    return Relaxation(bound=bound, counts=round_shares(problem, shares))


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The cells of one model on a part of a machine's slots. Times are in units of the model."""

    model: str
    width: int  # slots that run one cell together, a gang
    slots: frozenset[int]
    load: float
    transfer: float
    only: bool  # no other part uses the model
    present: Any  # 1 where the machine has the model
    loaded: Any  # gangs that load it
    cells: Sequence[tuple[Any, float]]  # and how long one takes

    @property
    def room(self) -> float:
        """What a gang has left for cells before the known plan ends."""
        return max(0.0, _SCALE - self.load - self.transfer)

    @property
    def work(self) -> Any:
        """What it needs of gangs, without transfers."""
        return self.load * self.loaded + sum(length * cells for cells, length in self.cells)


class _Model:
    """Constraints that every plan shorter than the known one meets.

    Where there are few variables each gang of slots is a part of its own, and cells are whole.
    Otherwise all gangs of a width are one part, and cells may be split.
    """

    def __init__(self, problem: Problem, rows: Any, *, unit: float) -> None:
        self.rows, self.unit = rows, unit
        self.cells: dict[tuple[int, str], list[Any]] = {}  # by group and machine
        self._problem = problem
        variables = sum(problem.slots[host] for group in problem.groups for host in group.ways)
        self._exact = variables <= _EXACT_VARIABLES
        self._end = rows.add_variable(lb=0, ub=3 * _SCALE, name="end")  # a late end is found soon
        for host in problem.slots:
            self._add_machine(host)
        for number, group in enumerate(problem.groups):
            cells = [one for host in group.ways for one in self.cells[number, host]]
            self._add(sum(cells) == group.count)
        self._add_blocks()
        rows.minimize(self._end)

    def _add(self, row: Any) -> None:
        if isinstance(row, bool):  # of no variable
            self.rows.add_linear_constraint(lb=0 if row else 1, ub=1, expr=0)
        else:
            self.rows.add_linear_constraint(row)

    def _add_machine(self, host: str) -> None:
        """What the machine runs fits into its slots until the end."""
        slots, by_kind = self._problem.slots[host], dict[tuple[str, int], list[int]]()
        for number, group in enumerate(self._problem.groups):
            if way := group.ways.get(host):
                by_kind.setdefault((way.model, way.width), []).append(number)
        present = {model: self.rows.add_binary_variable(name="") for model, _ in by_kind}
        split = {width: self._split(slots, width) for _, width in by_kind}
        users = Counter(model for model, width in by_kind for _ in split[width])
        parts = [
            self._add_part(host, part, numbers, present[model], only=users[model] == 1)
            for (model, width), numbers in by_kind.items()
            for part in split[width]
        ]
        if self._exact:
            for slot in range(slots):
                self._add_room([part for part in parts if slot in part.slots], 1)
        else:
            for width in split:
                self._add_room([part for part in parts if part.width == width], slots // width)
        if slots > 1:
            self._add_room(parts, slots, wide=True)

    def _split(self, slots: int, width: int) -> list[frozenset[int]]:
        each = gangs(slots, width)
        return [frozenset(gang) for gang in each] if self._exact else [frozenset(chain(*each))]

    def _add_part(
        self, host: str, slots: frozenset[int], numbers: Sequence[int], present: Any, *, only: bool
    ) -> _Part:
        """Cells need their model on the machine, and loaded by as many gangs as run them."""
        problem, rows = self._problem, self.rows
        groups = {number: problem.groups[number] for number in numbers}
        way = groups[numbers[0]].ways[host]
        most = min(len(slots) // way.width, sum(group.count for group in groups.values()))
        loaded = present
        if most > 1 or not only:
            loaded = rows.add_integer_variable(lb=0, ub=most, name="")
            self._add(loaded <= most * present)
        part = _Part(
            model=way.model,
            width=way.width,
            slots=slots,
            load=problem.load(host, way.model) / self.unit,
            transfer=problem.transfer(host, way.model) / self.unit,
            only=only,
            present=present,
            loaded=loaded,
            cells=[
                (
                    rows.add_variable(lb=0, ub=group.count, is_integer=self._exact, name=""),
                    group.ways[host].seconds / self.unit,
                )
                for group in groups.values()
            ],
        )
        for (number, group), (cells, length) in zip(groups.items(), part.cells, strict=True):
            self.cells.setdefault((number, host), []).append(cells)
            in_a_row = min(group.count, int(part.room / length)) if length else group.count
            self._add(cells <= group.count * present)
            self._add(cells <= in_a_row * loaded)
        self._add(sum(length * cells for cells, length in part.cells) <= part.room * loaded)
        return part

    def _add_room(self, parts: Sequence[_Part], gangs: int, *, wide: bool = False) -> None:
        """So many gangs have room for these parts (`wide`: so many slots, of parts of any width). A
        model is not there before its transfer, so what has longer ones fits into the time after."""
        self._add(_area(parts, 0.0, wide=wide) <= gangs * self._end)
        alone = gangs == 1 and not wide
        has = {
            part.model: part.loaded if alone else part.present for part in parts if part.transfer
        }
        transfers = {part.model: part.transfer for part in parts}
        models = sorted(has, key=lambda model: transfers[model])
        for model in models[:: max(1, len(models) // _TRANSFERS)]:
            after = transfers[model]
            area = _area(parts, after, wide=wide)
            self._add(area + gangs * after * has[model] <= gangs * self._end)
        if not wide:
            self._add_long_cells(parts, gangs)

    def _add_long_cells(self, parts: Sequence[_Part], gangs: int) -> None:
        """Of cells so long that a gang runs at most n of them, all gangs run at most n each."""
        room = max((part.room for part in parts), default=0.0)
        cells = [one for part in parts for one in part.cells]
        for most in range(1, _IN_A_ROW + 1):
            self._add(
                sum(one for one, length in cells if (most + 1) * length > room) <= most * gangs
            )

    def _add_blocks(self) -> None:
        """All groups of a block run in one form."""
        problem = self._problem
        for name, numbers in problem.blocks.items():
            chosen = {form: self.rows.add_binary_variable(name="") for form in problem.forms(name)}
            self._add(sum(chosen.values()) == 1)
            for number in numbers:
                group = problem.groups[number]
                for host, way in group.ways.items():
                    for cells in self.cells[number, host]:
                        self._add(cells <= group.count * chosen.get(way.form, 0))


def _area(parts: Sequence[_Part], after: float, *, wide: bool) -> Any:
    """What parts whose transfers take at least `after` need from then on: of gangs, or of slots if
    `wide`."""
    total: Any = 0.0
    transferred: set[str] = set()
    for part in sorted(parts, key=lambda part: part.width):
        if part.transfer >= after:
            weight = part.width if wide else 1
            total += weight * part.work
            if part.only or (wide and part.model not in transferred):
                total += weight * (part.transfer - after) * part.present
                transferred.add(part.model)
    return total
