"""Plans that are near what is proven, and bounds that no plan beats."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labs
from benchfleet.machines.assign import search, solver
from benchfleet.machines.assign.apart import answered
from benchfleet.machines.assign.asking import Asked, How
from benchfleet.machines.assign.lanes import Lanes
from benchfleet.machines.assign.problem import Group, Problem, Way
from benchfleet.machines.assign.walk import ended, walked

from .problems import EVER, alike, check, distinct_problem, random_problem


def asked(problem: Problem, how: How, *, known: float, limit: float = 0.1) -> Asked:
    return Asked(
        problem=problem, known=known, bound=0.0, how=how, seed=0, limit=limit, seconds=EVER
    )


def test_200_cells_on_8_machines_are_within_2_percent_of_the_bound() -> None:
    problem = random_problem(1)
    found = solver.solved(problem, limit=0.3, seconds=EVER)
    check(problem, found)
    assert found.gap <= 0.02


def test_200_cells_that_all_differ_are_within_2_percent_of_the_bound() -> None:
    problem = distinct_problem(1)
    assert {group.count for group in problem.groups} == {1}
    found = solver.solved(problem, limit=0.3, seconds=EVER)
    check(problem, found)
    assert found.gap <= 0.02


def test_200_cells_of_models_that_take_long_to_bring_are_near_the_bound() -> None:
    """An hour for each machine: what differs is above all which machine has which model."""
    problem = distinct_problem(1, bring=2000)
    found = solver.solved(problem, limit=0.3, seconds=EVER)
    check(problem, found)
    assert found.gap <= 0.02


def test_long_cells_that_cannot_share_a_slot_raise_the_bound() -> None:
    hosts = {"a": 2, "b": 1}
    group = Group(count=4, ways=dict.fromkeys(hosts, Way(seconds=10)))
    found = solver.solved(Problem(slots=hosts, groups=(group,)))
    assert found.makespan == 20
    assert found.gap <= 0.02  # by time alone it could be done in 13.3 seconds


def test_without_the_solver_the_gap_is_told_by_a_bound_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solver, "find_spec", lambda _: None)
    problem = random_problem(1)
    found = solver.solved(problem, limit=0.3, seconds=EVER)
    check(problem, found)
    assert found.by == "search"
    assert found.gap <= 0.1


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    hosts = {f"h{n}": draw(st.integers(1, 3)) for n in range(draw(st.integers(1, 3)))}
    groups = []
    for number in range(draw(st.integers(1, 4))):
        some = draw(st.lists(st.sampled_from(sorted(hosts)), min_size=1, unique=True))
        model = draw(st.sampled_from("xy"))
        ways = {
            host: Way(
                seconds=draw(st.integers(1, 20)),
                model=model,
                width=draw(st.integers(1, hosts[host])),
            )
            for host in some
        }
        groups.append(Group(count=draw(st.integers(1, 4)), ways=ways, block=f"b{number}"))
    loads = {(host, model): float(draw(st.integers(0, 9))) for host in hosts for model in "xy"}
    brings = {key: float(draw(st.integers(0, 30))) for key in loads}
    return Problem(slots=hosts, groups=tuple(groups), loads=loads, transfers=brings)


@settings(max_examples=30)
@given(problems())
def test_every_plan_is_whole_and_never_below_its_bound(problem: Problem) -> None:
    with patch.object(solver, "available", lambda: False):
        check(problem, solver.solved(problem, limit=0.1, seconds=EVER))


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(["cut", "apart", "patterns"]), st.sampled_from([1.004, 1.5]))
def test_no_plan_is_sooner_than_what_is_proven(problem: Problem, how: How, known: float) -> None:
    plan = walked(Lanes(problem, search.greedy(problem)), goal=0.0, seed=0)
    assert answered(asked(problem, how, known=known * ended(plan))).bound <= ended(plan) + 1e-6


def test_by_patterns_too_who_brings_a_model_need_not_wait_for_one_that_takes_less() -> None:
    groups = (alike(5, "a", model="y", count=3), alike(3, "a", model="x"))
    transfers = {("a", "x"): 4.0, ("a", "y"): 2.0}
    problem = Problem(slots={"a": 2}, groups=groups, transfers=transfers)
    lanes = Lanes(problem, {}, {(0, "a", 0): 2, (1, "a", 1): 1, (0, "a", 1): 1})
    assert ended(lanes.pieces()) == 12
    assert answered(asked(problem, "patterns", known=15.0, limit=1.0)).bound <= 12


@st.composite
def many_models(draw: st.DrawFn) -> Problem:
    """On two machines, one of which knows few of the models."""
    slots = {"a": draw(st.integers(1, 2)), "b": draw(st.integers(1, 3))}
    groups, loads, brings = [], {}, {}
    for number in range(draw(st.integers(9, 12))):
        model = f"m{number}"
        hosts = ("a", "b") if number < 3 else ("a",)
        ways = {host: Way(seconds=draw(st.integers(0, 30)), model=model) for host in hosts}
        groups.append(Group(count=draw(st.integers(1, 3)), ways=ways))
        for host in hosts:
            loads[host, model] = float(draw(st.integers(0, 5)))
            brings[host, model] = float(draw(st.sampled_from([0, 0, 7, 40])))
    return Problem(slots=slots, groups=tuple(groups), loads=loads, transfers=brings)


@settings(max_examples=15, deadline=None)
@given(many_models())
def test_no_plan_is_sooner_than_what_patterns_prove(problem: Problem) -> None:
    plan = walked(Lanes(problem, search.greedy(problem)), goal=0.0, seed=0)
    question = asked(problem, "patterns", known=1.3 * ended(plan))
    assert answered(question).bound <= ended(plan) + 1e-6


def test_patterns_prove_what_counting_work_cannot() -> None:
    """Three slots and four cells of which no two are done before 20; by their work, 13.3."""
    ways = dict.fromkeys(("a", "b"), Way(seconds=10, model="m"))
    slots = {"a": 2, "b": 1}
    problem = Problem(slots=slots, groups=tuple(Group(count=1, ways=ways) for _ in range(4)))
    bound = answered(asked(problem, "patterns", known=21.0, limit=1.0)).bound
    assert bound == pytest.approx(20.0, rel=0.001)


@pytest.mark.parametrize(("cells", "seed"), [(10, 3), (10, 12), (25, 12), (25, 23), (50, 13)])
def test_a_study_on_machines_that_people_have_is_within_2_percent_of_the_bound(
    cells: int, seed: int, tmp_path: Path
) -> None:
    """Models that come over Wi-Fi, slots that share a small memory, eight GPUs that wait for one
    model; and one (25, 23) that CP-SAT itself has aborted on."""
    planner, study = labs.assigner(seed, cells=cells, folder=tmp_path)
    plan = planner.plan(study, limit=0.6, seconds=EVER)
    assert len(plan.given) == len(study)
    assert plan.gap <= 0.02


def test_slots_that_wait_for_a_model_raise_the_bound() -> None:
    """Work and bringing come to 21 seconds for each slot, but neither begins before 10."""
    groups = (alike(4, "a", count=8),)
    found = solver.solved(Problem(slots={"a": 2}, groups=groups, transfers={("a", "m"): 10.0}))
    assert found.makespan == 26
    assert found.gap <= 0.005
