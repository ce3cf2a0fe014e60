"""How many machines are rented: held against all choices, and against a bound."""

from __future__ import annotations

from itertools import product
from math import inf

import pytest

from benchfleet.planner.rent import bound, choose
from benchfleet.planner.rent.choose import NoPlan, as_many, cheapest, quickest
from benchfleet.planner.rent.problem import HOUR_S, CellGroup, Lot, RentProblem, Span

SETUP = Span(low=100, expected=200, high=900)


def exactly(seconds: float) -> Span:
    return Span(low=seconds, expected=seconds, high=seconds)


def problem_of(*groups: CellGroup, count: int = 4) -> RentProblem:
    return RentProblem(
        groups=groups,
        lots=(
            Lot(
                name="small", count=count, prices=(400_000, 500_000, 600_000, 700_000), setup=SETUP
            ),
            Lot(name="large", count=count, prices=(2_000_000, 2_500_000), setup=SETUP),
        ),
        loads={"7b": exactly(100), "70b": exactly(600)},
    )


def small(count: int, seconds: float = 1000.0) -> CellGroup:
    lots = frozenset({"small", "large"})
    return CellGroup(count=count, seconds=exactly(seconds), model="7b", lots=lots)


def large(count: int, seconds: float = 1000.0) -> CellGroup:
    return CellGroup(count=count, seconds=exactly(seconds), model="70b", lots=frozenset({"large"}))


PROBLEM = problem_of(small(8), large(2))


@pytest.mark.slow
def test_without_a_deadline_one_machine_of_each_needed_kind_is_cheapest() -> None:
    plan = cheapest(PROBLEM)
    assert plan.counts == {"small": 1, "large": 1}
    assert plan.cost[0] <= plan.cost[1] < plan.cost[2]
    assert plan.cost_bound <= plan.cost[1]


@pytest.mark.slow
@pytest.mark.parametrize("deadline", [10_000.0, 5000.0, 3500.0, 2900.0])
def test_the_cheapest_in_time_costs_no_more_than_any_other_choice(deadline: float) -> None:
    plan = cheapest(PROBLEM, deadline)
    assert plan.seconds[1] <= deadline
    others = []
    for one, two in product(range(5), range(1, 3)):
        other = choose._plan(PROBLEM, {"small": one, "large": two}, deadline)
        if other.seconds[1] <= deadline:
            others.append(other.cost[1])
    assert min(others) * 1.1 >= plan.cost[1]
    assert plan.cost_bound <= min(others)
    assert plan.gap < 0.5


def test_a_deadline_that_nothing_meets_is_refused_with_what_all_takes() -> None:
    with pytest.raises(NoPlan, match="takes about"):
        cheapest(PROBLEM, 1000.0)


@pytest.mark.slow
def test_a_larger_budget_is_quicker_until_nothing_more_helps() -> None:
    least = cheapest(PROBLEM)
    assert quickest(PROBLEM, least.cost[2]).seconds[1] <= least.seconds[1]
    rich = quickest(PROBLEM, 100_000_000)
    assert rich.seconds[1] < least.seconds[1] / 2
    assert rich.cost[2] <= 100_000_000
    assert 0 < rich.seconds_bound <= rich.seconds[1]
    with pytest.raises(NoPlan, match="costs at least"):
        quickest(PROBLEM, 100_000)


def test_no_more_machines_than_cells_are_rented() -> None:
    assert as_many(problem_of(large(1))).counts == {"small": 0, "large": 1}
    assert as_many(PROBLEM).counts["small"] == 4


def test_own_machines_cost_nothing_and_are_used_first() -> None:
    own = Lot(name="here", count=1, slots=2)
    cells = CellGroup(count=4, seconds=exactly(600), model="7b", lots=frozenset({"here", "small"}))
    problem = RentProblem(groups=(cells,), lots=(own, PROBLEM.lots[0]))
    assert cheapest(problem).machines == 0
    assert cheapest(problem).cost == (0, 0, 0)
    hurried = cheapest(problem, 1000.0)
    assert hurried.machines >= 1
    assert hurried.cells["here"] >= 1


def test_the_range_has_limits_dearer_offers_and_failures() -> None:
    lot = Lot(name="small", count=1, prices=(400_000,), dearest=600_000, setup=SETUP)
    cells = CellGroup(
        count=1,
        seconds=Span(low=100, expected=200, high=400),
        model="",
        lots=frozenset({"small"}),
    )
    low, expected, high = cheapest(RentProblem(groups=(cells,), lots=(lot,))).cost
    assert low == pytest.approx(400_000 * 200 / HOUR_S, abs=1)
    assert expected == pytest.approx(400_000 * 400 / HOUR_S, abs=1)
    assert high == pytest.approx(600_000 * (900 + 400 + 900) / HOUR_S, abs=1)


def test_the_bound_holds_without_ortools(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = bound.cost_bound(PROBLEM).cost
    monkeypatch.setattr(bound, "available", lambda: False)
    assert 0 < bound.cost_bound(PROBLEM).cost <= exact * 1.001
    assert bound.cost_bound(PROBLEM, inf).counts is None
    assert cheapest(PROBLEM).counts == {"small": 1, "large": 1}
