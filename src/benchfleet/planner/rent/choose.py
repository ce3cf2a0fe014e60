"""Chooses how many machines of each lot to rent: the cheapest in time, or quickest in budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf

from benchfleet.planner.rent.bound import cost_bound
from benchfleet.planner.rent.problem import HOUR_S, Lot, RentProblem
from benchfleet.planner.solver import solver
from benchfleet.planner.solver.problem import Group, Problem, Solution, Way

_SEARCH_S = 0.0  # seconds of one schedule: of many, heuristics are good enough
_RENTALS_PER_FAILURE = 3  # so that one of four rentals fails, at the high end
_HALVINGS = 6  # of the time, for the bound of the quickest plan
Counts = Mapping[str, int]  # machines, by lot


@dataclass(frozen=True, kw_only=True)
class RentPlan:
    """How many machines of each lot are rented, and what that comes to.

    Money is in millionths, times are in seconds. Ranges are low, expected, high.
    """

    counts: Counts
    cost: tuple[int, int, int]
    seconds: tuple[float, float, float]
    cost_bound: float = 0.0  # no plan that ends as early is cheaper
    seconds_bound: float = 0.0  # no plan of the same cost is quicker; 0: not asked for
    cells: Mapping[str, int] = field(default_factory=dict)  # by lot

    @property
    def machines(self) -> int:
        """All that are rented."""
        return sum(self.counts.values())

    @property
    def gap(self) -> float:
        """How far the expected cost is from the bound at most, as a part of the bound."""
        return self.cost[1] / self.cost_bound - 1 if self.cost_bound > 0 else 0.0


class NoPlan(ValueError):
    """No choice of machines meets the terms; says why."""


def cheapest(problem: RentProblem, deadline: float = inf) -> RentPlan:
    """The cheapest plan that ends within so many seconds. Raises NoPlan."""
    bound = cost_bound(problem, deadline)
    if bound.cost == inf:
        raise NoPlan(_too_short(problem))
    plan = _plan(problem, bound.counts or _least(problem), deadline)
    while plan.seconds[1] > deadline:
        plan = _with_one_more(problem, plan, deadline)
    for name in list(plan.counts):
        fewer = _plan_or_none(problem, {**plan.counts, name: plan.counts[name] - 1}, deadline)
        if fewer and fewer.seconds[1] <= deadline and fewer.cost[1] <= plan.cost[1]:
            plan = fewer
    return _bounded(plan, bound.cost)


def quickest(problem: RentProblem, budget: int, currency: str = "USD") -> RentPlan:
    """The quickest plan whose high estimate is within what is left of a budget (millionths); the
    cheapest plan if none is that safe. Raises NoPlan if even its low estimate exceeds that."""
    plan = cheapest(problem)
    if plan.cost[0] > budget:
        least, most = (f"{amount / 1e6:.2f} {currency}" for amount in (plan.cost[0], budget))
        raise NoPlan(f"the cheapest plan costs at least {least}, and {most} is left; raise it")
    while plan.cost[2] <= budget:
        try:
            more = _with_one_more(problem, plan, 0.0)
        except NoPlan:
            break
        if more.cost[2] > budget or more.seconds[1] >= plan.seconds[1]:
            break
        plan = more
    bound = cost_bound(problem, plan.seconds[1]).cost
    return _bounded(plan, bound, _quickest_bound(problem, budget, plan.seconds[1]))


def as_many(problem: RentProblem) -> RentPlan:
    """As many machines as the inventory allows, where so many have work."""
    counts = {lot.name: lot.most for lot in problem.lots if lot.is_rented}
    plan = _plan(problem, counts, 0.0)
    busy = {name: min(counts[name], plan.cells.get(name, 0)) for name in counts}
    plan = _plan(problem, busy, 0.0)
    return _bounded(plan, cost_bound(problem).cost)


def _bounded(plan: RentPlan, cost: float, seconds: float = 0.0) -> RentPlan:
    return RentPlan(
        counts=plan.counts,
        cost=plan.cost,
        seconds=plan.seconds,
        cells=plan.cells,
        cost_bound=min(cost, plan.cost[1]),
        seconds_bound=min(seconds, plan.seconds[1]),
    )


def _quickest_bound(problem: RentProblem, budget: int, seconds: float) -> float:
    """No plan whose cost is within the budget ends earlier."""
    low, high = 0.0, seconds
    for _ in range(_HALVINGS if solver.available() else 0):
        middle = (low + high) / 2
        if cost_bound(problem, middle).cost > budget:
            low = middle
        else:
            high = middle
    return low


def _least(problem: RentProblem) -> Counts:
    """A machine of each lot that some cells need, at the least price."""
    counts = {lot.name: 0 for lot in problem.lots if lot.is_rented}
    for group in problem.groups:
        name = min(group.lots, key=lambda one: (problem.by_name[one].price(0), one))
        if name in counts:
            counts[name] = 1
    return counts


def _with_one_more(problem: RentProblem, plan: RentPlan, deadline: float) -> RentPlan:
    """One more machine, of the lot where it helps most. Raises NoPlan if none helps."""
    best: RentPlan | None = None
    for lot in problem.lots:
        number = plan.counts.get(lot.name, 0)
        if not lot.is_rented or number >= lot.most:
            continue
        more = _plan(problem, {**plan.counts, lot.name: number + 1}, deadline)
        if best is None or (more.seconds[1], more.cost[1]) < (best.seconds[1], best.cost[1]):
            best = more
    if best is None or best.seconds[1] >= plan.seconds[1]:
        raise NoPlan(_too_short(problem))
    return best


def _too_short(problem: RentProblem) -> str:
    full = _plan(problem, {lot.name: lot.most for lot in problem.lots if lot.is_rented}, 0.0)
    hours = full.seconds[1] / HOUR_S
    return f"all that may be rented takes about {hours:.1f} h; raise 'count', or the deadline"


def _plan_or_none(problem: RentProblem, counts: Counts, deadline: float) -> RentPlan | None:
    try:
        return _plan(problem, counts, deadline) if min(counts.values()) >= 0 else None
    except ValueError:
        return None


def _plan(problem: RentProblem, counts: Counts, deadline: float) -> RentPlan:
    """What these machines come to: cells run where they are cheapest, unless only another schedule
    meets the deadline. Raises ValueError if some cells then have no machine."""
    if deadline:
        cheap = _plan_of(_at_the_cheapest(problem, counts), counts)
        if cheap.seconds[1] <= deadline:
            return cheap
    return _plan_of(problem, counts)


def _at_the_cheapest(problem: RentProblem, counts: Counts) -> RentProblem:
    """The problem with each group on the lot where it costs least."""
    groups = []
    for group in problem.groups:
        lots = [problem.by_name[name] for name in group.lots]
        available = [one for one in lots if not one.is_rented or counts.get(one.name)]
        if available:
            best = min(available, key=lambda lot: (lot.price(0) / lot.slots, lot.name))
            groups.append(replace(group, lots=frozenset({best.name})))
        else:
            groups.append(group)
    return replace(problem, groups=tuple(groups))


def _plan_of(problem: RentProblem, counts: Counts) -> RentPlan:
    machines = {
        f"{lot.name}#{number}": (lot, number)
        for lot in problem.lots
        for number in range(counts.get(lot.name, 0) if lot.is_rented else lot.count)
    }
    solution = _schedule(problem, machines)
    costs, ends = [], []
    for end in ("low", "expected", "high"):
        cost, last = 0.0, 0.0
        for name, (lot, number) in machines.items():
            busy = _busy(problem, solution, name, lot, end)
            if busy or lot.is_rented:
                seconds = lot.setup.at(end) + busy
                cost += lot.price(number, end) * seconds / HOUR_S
                last = max(last, seconds)
        if end == "high":
            cost, last = cost + _failures(problem, counts), last + _longest_setup(problem, counts)
        costs.append(ceil(cost))
        ends.append(last)
    cells: dict[str, int] = {}
    for (_, name), count in solution.counts.items():
        lot = machines[name][0]
        cells[lot.name] = cells.get(lot.name, 0) + count
    return RentPlan(
        counts=dict(counts),
        cost=(costs[0], costs[1], costs[2]),
        seconds=(ends[0], ends[1], ends[2]),
        cells=cells,
    )


def _schedule(problem: RentProblem, machines: Mapping[str, tuple[Lot, int]]) -> Solution:
    groups = tuple(
        Group(
            count=group.count,
            ways={
                name: Way(seconds=group.seconds.expected, model=group.model, width=group.width)
                for name, (lot, _) in machines.items()
                if lot.name in group.lots
            },
        )
        for group in problem.groups
    )
    used = {name for group in groups for name in group.ways}
    loads = {(name, m): problem.load(m) for name in used for m in problem.loads}
    slots = {name: lot.slots for name, (lot, _) in machines.items() if name in used}
    return solver.solve(Problem(slots=slots, groups=groups, loads=loads), seconds=_SEARCH_S)


def _busy(problem: RentProblem, solution: Solution, name: str, lot: Lot, end: str) -> float:
    """Seconds that a machine works: as scheduled, or by its cells at another end of the range."""
    if end == "expected":
        return max((piece.end for piece in solution.pieces if piece.host == name), default=0.0)
    models = {piece.model for piece in solution.pieces if piece.host == name}
    seconds = sum(problem.load(model, end) for model in models)
    for (number, host), count in solution.counts.items():
        if host == name:
            group = problem.groups[number]
            seconds += count * group.seconds.at(end) * group.width
    return seconds / lot.slots


def _failures(problem: RentProblem, counts: Counts) -> float:
    """What failed rentals may cost: one for each few that are planned."""
    return sum(
        ceil(number / _RENTALS_PER_FAILURE)
        * problem.by_name[name].price(0, "high")
        * problem.by_name[name].setup.high
        / HOUR_S
        for name, number in counts.items()
        if number
    )


def _longest_setup(problem: RentProblem, counts: Counts) -> float:
    return max((problem.by_name[n].setup.high for n, k in counts.items() if k), default=0.0)
