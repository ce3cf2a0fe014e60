"""The planner on problems whose best plan is known."""

from __future__ import annotations

import sys
from random import Random

import pytest

from benchfleet.planner.solver import solver, solver_process
from benchfleet.planner.solver.heuristic import greedy
from benchfleet.planner.solver.local_search import anneal
from benchfleet.planner.solver.problem import Group, Problem, Way, makespan
from benchfleet.planner.solver.schedule import schedule, shares
from benchfleet.planner.solver.symmetry import merge
from benchfleet.planner.solver.timelines import Timelines

from .problems import EVER, alike, check, random_problem


def test_what_is_brought_is_brought_once_however_cells_wander() -> None:
    problem = random_problem(4)
    timelines = Timelines(problem, greedy(problem))
    random = Random(4)
    for _ in range(500):
        source = random.choice([timeline for timeline, held in enumerate(timelines.cells) if held])
        number = random.choice(list(timelines.cells[source]))
        timelines.change(source, number, -1)
        timelines.change(random.choice(list(timelines.ways[number])), number, 1)
    again = Timelines(problem, timelines.counts)
    assert sum(timelines.counts.values()) == 200
    pieces = timelines.pieces()
    for host in problem.slots:
        work = sum(timelines.work[timeline] for timeline in timelines.of_host(host))
        run = sum(p.end - p.begin for p in pieces if p.host == host and p.group is not None)
        mine = {
            (timeline, model)
            for timeline in timelines.of_host(host)
            for model in timelines.models[timeline]
        }
        loads = sum(problem.load(host, model) for _, model in mine)
        brings = sum(problem.transfer(host, model) for model in {model for _, model in mine})
        assert work == pytest.approx(run + loads + brings, abs=1e-6)
    assert again.counts == timelines.counts


@pytest.mark.slow
def test_a_walk_from_a_bad_plan_finds_one_that_many_moves_are_between() -> None:
    problem = random_problem(2, models=5, benchmarks=2, cells=50)
    plan = anneal(Timelines(problem, greedy(problem)), goal=0.0, seed=0)
    assert makespan(plan) <= 5800  # 5,361 is proven to be the least; past no worse plan: 6,294


def test_few_cells_are_listed_by_slot() -> None:
    hosts = {"a": 2, "b": 2}
    groups = [alike(seconds, *hosts, model="") for seconds in (70, 60, 60, 50, 50, 30, 30, 30)]
    found = solver.solve(Problem(slots=hosts, groups=tuple(groups)), effort=0.1)
    assert found.makespan == 100


@pytest.mark.slow
def test_a_seed_repeats_a_plan() -> None:
    problem = random_problem(3, models=3, benchmarks=4, cells=36)
    one, other = (solver.solve(problem, seed=7, effort=0.1, seconds=EVER) for _ in range(2))
    assert one == other


def test_loading_is_paid_once_for_each_slot_and_bringing_once_for_each_machine() -> None:
    problem = Problem(
        slots={"a": 2},
        groups=(alike(10, "a", count=4),),
        loads={("a", "m"): 3},
        transfers={("a", "m"): 7},
    )
    pieces = schedule(problem, "a", shares(problem, "a", {0: 4}))
    loading = sorted((p.begin, p.end) for p in pieces if p.group is None)
    assert loading == [(0, 10), (0, 10)]  # the second waits until the first has brought it
    assert makespan(pieces) == 30


def test_a_slot_changes_its_model_as_seldom_as_can_be() -> None:
    problem = Problem(
        slots={"a": 1, "b": 1},
        groups=(alike(10, "a", "b", count=4, model="x"), alike(10, "a", "b", count=4, model="y")),
        loads={(host, model): 8.0 for host in "ab" for model in "xy"},
    )
    found = solver.solve(problem, effort=0.5)
    assert found.makespan == 48
    assert {host: {n for n, where in found.counts if where == host} for host in "ab"} in (
        {"a": {0}, "b": {1}},
        {"a": {1}, "b": {0}},
    )


def test_a_wide_cell_has_its_slots_for_itself() -> None:
    problem = Problem(
        slots={"box": 4}, groups=(alike(10, "box", width=3), alike(4, "box", count=6))
    )
    found = solver.solve(problem, effort=0.2)
    check(problem, found)
    assert found.makespan <= 18


def test_a_block_is_run_in_one_form() -> None:
    full, small = Way(seconds=10, model="full"), Way(seconds=6, model="small", form=1)
    both = {"big": full, "little": small}
    groups = (Group(count=4, ways=both, block="b"), Group(count=3, ways=both, block="b"))
    problem = Problem(slots={"big": 1, "little": 1}, groups=groups)
    found = solver.solve(problem, effort=0.3)
    check(problem, found)
    assert found.makespan == 42  # all with the variant, though the other machine then idles


def test_a_slow_machine_gets_little_and_an_unfit_one_nothing() -> None:
    ways = {"fast": Way(seconds=1), "slow": Way(seconds=10)}
    problem = Problem(
        slots={"fast": 1, "slow": 1, "unfit": 4}, groups=(Group(count=22, ways=ways),)
    )
    found = solver.solve(problem, effort=0.3)
    assert found.makespan == 20
    assert found.counts == {(0, "fast"): 20, (0, "slow"): 2}


def test_what_can_run_nowhere_is_no_problem_for_a_planner() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        solver.solve(Problem(slots={"a": 1}, groups=(Group(count=1, ways={}),)))


def test_equal_groups_are_planned_as_one_and_separated_again() -> None:
    problem = Problem(slots={"a": 2}, groups=tuple(alike(5, "a", count=n) for n in (1, 2, 3)))
    simpler, made_of = merge(problem)
    assert [group.count for group in simpler.groups] == [6]
    assert made_of == [[0, 1, 2]]
    check(problem, solver.solve(problem))


def test_time_that_is_over_ends_it_with_the_plan_that_there_is() -> None:
    problem, now = random_problem(2, models=5, benchmarks=2, cells=50), iter(range(1000))
    found = solver.solve(problem, seconds=20, clock=lambda: float(next(now)))
    check(problem, found)
    assert next(now) < 100


@pytest.mark.slow
@pytest.mark.parametrize("program", ["pass", "import time; time.sleep(1000)"])
def test_a_solver_that_dies_or_hangs_leaves_a_plan(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(solver_process, "_PROGRAM", [sys.executable, "-c", program])
    problem = random_problem(2, models=5, benchmarks=2, cells=50)
    found = solver.solve(problem, effort=0.05, seconds=1.5)
    check(problem, found)
    assert found.by == "search"
