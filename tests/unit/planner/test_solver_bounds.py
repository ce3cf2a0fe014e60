"""Plans near a proven bound, and bounds that no plan beats."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labs
from benchfleet.planner.solver import solver
from benchfleet.planner.solver.heuristic import greedy
from benchfleet.planner.solver.local_search import anneal
from benchfleet.planner.solver.mip_relaxation import relax
from benchfleet.planner.solver.problem import Group, Problem, Way, makespan
from benchfleet.planner.solver.timelines import Timelines

from .problems import EVER, alike, check, distinct_problem, random_problem

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "problem",
    [random_problem(1), distinct_problem(1), distinct_problem(1, bring=2000)],
    ids=["identical cells", "distinct cells", "an hour to transfer a model"],
)
def test_200_cells_on_8_machines_are_within_5_percent_of_the_bound(problem: Problem) -> None:
    found = solver.solve(problem, effort=0.3, seconds=EVER)
    check(problem, found)
    assert found.gap <= 0.05


@pytest.mark.parametrize(("cells", "seed"), [(10, 3), (10, 4), (25, 12), (25, 23), (50, 7)])
def test_a_study_on_machines_that_people_have_is_within_5_percent_of_the_bound(
    cells: int, seed: int, tmp_path: Path
) -> None:
    """Transfers over Wi-Fi, slots that share a small memory, eight GPUs that wait for one model."""
    planner, study = labs.assigner(seed, cells=cells, folder=tmp_path)
    plan = planner.plan(study, effort=0.6, seconds=EVER)
    assert len(plan.cells) == len(study)
    assert plan.gap <= 0.05


def test_cells_that_do_not_fit_into_the_slots_together_raise_the_bound() -> None:
    hosts = {"a": 2, "b": 1}
    group = Group(count=4, ways=dict.fromkeys(hosts, Way(seconds=10)))
    found = solver.solve(Problem(slots=hosts, groups=(group,)))
    assert found.makespan == 20
    assert found.gap <= 0.005  # the work alone takes 13.3 seconds a slot


def test_slots_that_wait_for_a_model_raise_the_bound() -> None:
    """Work and transfer come to 21 seconds a slot, but neither slot begins before 10."""
    groups = (alike(4, "a", count=8),)
    found = solver.solve(Problem(slots={"a": 2}, groups=groups, transfers={("a", "m"): 10.0}))
    assert found.makespan == 26
    assert found.gap <= 0.005


def test_without_or_tools_the_gap_is_that_to_a_weaker_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solver, "find_spec", lambda _: None)
    problem = random_problem(1)
    found = solver.solve(problem, effort=0.3, seconds=EVER)
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
                seconds=draw(st.integers(0, 20)),
                model=model,
                width=draw(st.integers(1, hosts[host])),
            )
            for host in some
        }
        groups.append(Group(count=draw(st.integers(1, 4)), ways=ways, block=f"b{number}"))
    loads = {(host, model): float(draw(st.integers(0, 9))) for host in hosts for model in "xy"}
    transfers = {key: float(draw(st.integers(0, 30))) for key in loads}
    return Problem(slots=hosts, groups=tuple(groups), loads=loads, transfers=transfers)


@st.composite
def many_models(draw: st.DrawFn) -> Problem:
    """On two machines, one of which runs few of the models."""
    slots = {"a": draw(st.integers(1, 2)), "b": draw(st.integers(1, 3))}
    groups, loads, transfers = [], {}, {}
    for number in range(draw(st.integers(9, 12))):
        model = f"m{number}"
        hosts = ("a", "b") if number < 3 else ("a",)
        ways = {host: Way(seconds=draw(st.integers(0, 30)), model=model) for host in hosts}
        groups.append(Group(count=draw(st.integers(1, 3)), ways=ways))
        for host in hosts:
            loads[host, model] = float(draw(st.integers(0, 5)))
            transfers[host, model] = float(draw(st.sampled_from([0, 0, 7, 40])))
    return Problem(slots=slots, groups=tuple(groups), loads=loads, transfers=transfers)


@settings(max_examples=20)
@given(problems())
def test_every_plan_is_whole_and_never_below_its_bound(problem: Problem) -> None:
    with patch.object(solver, "available", lambda: False):
        check(problem, solver.solve(problem, effort=0.1, seconds=EVER))


@settings(max_examples=40, deadline=None)
@given(problems() | many_models(), st.sampled_from([1.004, 1.5]), st.sampled_from([0, 600]))
def test_no_plan_is_shorter_than_the_bound_of_the_relaxation(
    problem: Problem, known: float, exact: int
) -> None:
    plan = anneal(Timelines(problem, greedy(problem)), goal=0.0, seed=0)
    end = max(makespan(plan), 1.0)
    with patch("benchfleet.planner.solver.mip_relaxation._EXACT_VARIABLES", exact):
        found = relax(problem, known_s=known * end, seed=0, effort=0.1, seconds=EVER)
    assert found.bound <= end + 1e-6
