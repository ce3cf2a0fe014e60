"""A bound by patterns: no plan ends by some time if slots cannot cover all cells by then, though
each may run a part of one pattern and a part of another.

That is column generation (Gilmore and Gomory 1961; Wentges 1997 for the smoothing). The solver of
linear programs only leads the way: prices of cells prove that nothing ends by a time if all slots
together cannot earn as much by then as all cells pay. That is decided in whole numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from .asking import Answer, Asked
from .patterns import Pattern, Prices, Slot
from .problem import Problem
from .walk import GOOD

UNITS = 2000  # that the makespan is counted in
_TURNS = 200  # of prices
_SMOOTH = 0.8  # how much of the best prices is in the next ones
_PAY = 2**28  # of all cells together, for each model: no sum of prices is too large a number


@dataclass
class Duals:
    """Prices as the linear program has them, where all cells together pay 1."""

    cells: list[float]
    joint: dict[tuple[str, int], float] = field(default_factory=dict)  # machine and group
    waiting: dict[tuple[str, str], float] = field(default_factory=dict)  # machine and model

    def mixed(self, other: Duals, part: float) -> Duals:
        """So much of these, the rest of the others."""

        def mix(mine: Mapping[Any, float], others: Mapping[Any, float]) -> dict[Any, float]:
            keys = dict.fromkeys([*mine, *others])
            return {k: part * mine.get(k, 0.0) + (1 - part) * others.get(k, 0.0) for k in keys}

        cells = [part * a + (1 - part) * b for a, b in zip(self.cells, other.cells, strict=True)]
        return Duals(cells, mix(self.joint, other.joint), mix(self.waiting, other.waiting))


def covered(asked: Asked, told: Callable[[float], None] = lambda bound: None) -> Answer:
    """A bound of at most the seconds of the known plan; better ones are told as they come. The
    limit is how many times as many prices are tried as usual."""
    if asked.known <= 0:
        return Answer(bound=asked.bound)
    over = time.monotonic() + asked.seconds
    problem, unit = asked.problem, asked.known / UNITS
    slots = [Slot(problem, host, unit=unit, most=UNITS) for host in problem.slots]
    counts = [group.count for group in problem.groups]
    all_ = _PAY // max(8, *(len(slot.lanes) for slot in slots))
    random = Random(asked.seed)  # noqa: S311 - a bound is no secret
    master = _Master(problem, slots)
    until = max(1, min(UNITS, int(asked.bound / unit)))
    best = duals = started(problem)
    least, worse = 2.0, 0
    for _ in range(round(_TURNS * asked.limit)):
        prices = [_prices(slot, duals, all_) for slot in slots]
        pay = sum(count * paid for count, paid in zip(counts, prices[0].cells, strict=True))
        earned = np.zeros(UNITS + 1, np.int64)
        for slot, price in zip(slots, prices, strict=True):
            worths, pattern = slot.worths(price, until)
            earned += slot.slots * worths.astype(np.int64)
            master.add(slot, pattern)
        proven = int(np.searchsorted(earned, pay))  # by no time before all cells can be paid
        if proven > until:
            until, least = min(proven, UNITS), 2.0
            told(until * unit)
            if asked.known <= until * unit * (1 + GOOD / 5):
                break
        value = int(earned[until]) / pay
        if value < least:
            best, least, worse = duals, value, 0
        else:
            worse += 1
        _complete(slots, prices, counts, until, random, master)
        found = master.solved()
        if found is None or time.monotonic() >= over:
            break
        duals = best.mixed(found, max(0.0, 1 - (1 + worse) * (1 - _SMOOTH)))
    return Answer(bound=max(asked.bound, until * unit))


def _complete(
    slots: Sequence[Slot],
    prices: Sequence[Prices],
    counts: Sequence[int],
    until: int,
    random: Random,
    master: _Master,
) -> None:
    """Patterns that go together: what one slot runs is worth less to the next."""
    left = list(prices[0].cells)
    each = [place for place, slot in enumerate(slots) for _ in range(min(2, slot.slots))]
    random.shuffle(each)
    for place in each:
        slot, price = slots[place], prices[place]
        _, pattern = slot.worths(Prices(left, price.joint, price.waiting), until)
        master.add(slot, pattern)
        for number, share in pattern.cells.items():
            left[number] = int(left[number] * max(0.0, 1 - share / counts[number]))


def _prices(slot: Slot, duals: Duals, all_: int) -> Prices:
    """In whole numbers, of which all cells together have so many."""
    cells = [int(paid * all_) for paid in duals.cells]
    joint = {
        number: min(cells[number], int(duals.joint.get((slot.host, number), 0.0) * all_))
        for numbers in slot.of_model.values()
        for number in numbers
    }
    waiting = {
        model: min(all_ // many, int(duals.waiting.get((slot.host, model), 0.0) * all_))
        for model, many in slot.lanes.items()
    }
    return Prices(cells, joint, waiting)


class _Master:
    """Which part of all cells can be covered by the patterns that are known."""

    def __init__(self, problem: Problem, slots: Sequence[Slot]) -> None:
        from ortools.linear_solver import pywraplp

        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._counts = [group.count for group in problem.groups]
        ever = self._solver.infinity()
        self._part: Any = self._solver.NumVar(0, 1, "part")
        self._cover: list[Any] = []
        for count in self._counts:
            row = self._solver.Constraint(0, ever)
            row.SetCoefficient(self._part, -count)
            self._cover.append(row)
        self._room = {slot.host: self._solver.Constraint(-ever, slot.slots) for slot in slots}
        self._waiting: dict[tuple[str, str], Any] = {}
        self._joint: dict[tuple[str, int], Any] = {}
        for slot in slots:
            for model, numbers in slot.of_model.items():
                self._waiting[slot.host, model] = self._solver.Constraint(-ever, 0)
                for number in numbers:
                    self._joint[slot.host, number] = self._solver.Constraint(-ever, 0)
        self._known: set[object] = set()
        self._solver.Objective().SetCoefficient(self._part, 1)
        self._solver.Objective().SetMaximization()

    def add(self, slot: Slot, pattern: Pattern) -> None:
        """Let slots of the machine run it."""
        key = (
            slot.host,
            frozenset(pattern.cells.items()),
            frozenset(pattern.brings.items()),
            frozenset(pattern.waits.items()),
        )
        if key in self._known:
            return
        self._known.add(key)
        variable = self._solver.NumVar(0, self._solver.infinity(), "")
        self._room[slot.host].SetCoefficient(variable, 1)
        joint: dict[int, float] = {}
        for number, share in pattern.cells.items():
            self._cover[number].SetCoefficient(variable, share)
            if (slot.host, number) in self._joint:
                joint[number] = share
        waiting = dict(pattern.waits)
        for model, share in pattern.brings.items():
            waiting[model] = waiting.get(model, 0.0) - share * (slot.lanes[model] - 1)
            for number in slot.of_model[model]:
                joint[number] = joint.get(number, 0.0) - share * self._counts[number]
        for number, share in joint.items():
            self._joint[slot.host, number].SetCoefficient(variable, share)
        for model, share in waiting.items():
            self._waiting[slot.host, model].SetCoefficient(variable, share)

    def solved(self) -> Duals | None:
        """The prices that no known pattern beats; None where all cells are covered, or where it
        went wrong."""
        if self._solver.Solve() != 0 or self._part.solution_value() >= 1 - 1e-7:
            return None
        cells = [max(0.0, -row.dual_value()) for row in self._cover]
        total = sum(count * paid for count, paid in zip(self._counts, cells, strict=True))
        if total <= 0:
            return None
        return Duals(
            [paid / total for paid in cells],
            {key: max(0.0, row.dual_value()) / total for key, row in self._joint.items()},
            {key: max(0.0, row.dual_value()) / total for key, row in self._waiting.items()},
        )


def started(problem: Problem) -> Duals:
    """The prices where cells can be cut and only the work of all slots of a machine is counted."""
    from ortools.linear_solver import pywraplp

    solver: Any = pywraplp.Solver.CreateSolver("GLOP")
    ever = solver.infinity()
    end = solver.NumVar(0, ever, "end")
    room: dict[str, Any] = {}
    for host, slots in problem.slots.items():
        room[host] = solver.Constraint(-ever, 0)
        room[host].SetCoefficient(end, -slots)
    used: dict[tuple[str, str], Any] = {}
    cover = []
    joint: dict[tuple[str, int], Any] = {}
    for number, group in enumerate(problem.groups):
        row = solver.Constraint(group.count, ever)
        cover.append(row)
        for host, way in group.ways.items():
            if (host, way.model) not in used:
                has = used[host, way.model] = solver.NumVar(0, ever, "")
                setup = problem.load(host, way.model) + problem.transfer(host, way.model)
                room[host].SetCoefficient(has, setup)
            cells = solver.NumVar(0, ever, "")
            row.SetCoefficient(cells, 1)
            room[host].SetCoefficient(cells, way.seconds * way.width)
            link = joint[host, number] = solver.Constraint(-ever, 0)
            link.SetCoefficient(cells, 1)
            link.SetCoefficient(used[host, way.model], -group.count)
    solver.Objective().SetCoefficient(end, 1)
    solver.Objective().SetMinimization()
    solver.Solve()
    counts = [group.count for group in problem.groups]
    paid = [max(0.0, row.dual_value()) for row in cover]
    total = sum(count * one for count, one in zip(counts, paid, strict=True)) or 1.0
    return Duals(
        [one / total for one in paid],
        {key: max(0.0, -row.dual_value()) / total for key, row in joint.items()},
    )
