"""The planner on problems whose best plan is known, or can be bounded."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Literal
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labs
from benchfleet.machines.assign import asking, search, solver
from benchfleet.machines.assign.alike import merged
from benchfleet.machines.assign.apart import answered
from benchfleet.machines.assign.asking import Asked
from benchfleet.machines.assign.covering import covered
from benchfleet.machines.assign.lanes import Lanes
from benchfleet.machines.assign.problem import Group, Problem, Solution, Way
from benchfleet.machines.assign.schedule import schedule, shares
from benchfleet.machines.assign.walk import ended, walked

_EVER = 1000.0  # seconds, so that no test depends on a clock


def _one(seconds: float, *hosts: str, count: int = 1, model: str = "m", width: int = 1) -> Group:
    way = Way(seconds=seconds, model=model, width=width)
    return Group(count=count, ways=dict.fromkeys(hosts, way))


def random_problem(
    seed: int, *, models: int = 8, benchmarks: int = 5, cells: int = 200, bring: float = 100
) -> Problem:
    """Cells, and 8 machines that differ in speed, memory, slots and what lies there."""
    random = Random(seed)
    hosts = {f"host{number}": random.randint(1, 2) for number in range(8)}
    speed = {host: 2 ** random.uniform(-2, 2) for host in hosts}
    groups, loads, transfers = [], {}, {}
    for number in range(models):
        size = random.uniform(0.3, 3)
        fitting = [host for host in hosts if speed[host] > 0.4 * size] or [
            max(speed, key=speed.get)
        ]  # type: ignore[arg-type]
        for host in fitting:
            loads[host, f"m{number}"] = random.uniform(10, 120) * size
            transfers[host, f"m{number}"] = bring * size if random.random() < 0.7 else 0.0
        for _ in range(benchmarks):
            work = random.uniform(30, 3600) * size
            ways = {
                host: Way(seconds=work / speed[host] * random.uniform(0.7, 1.3), model=f"m{number}")
                for host in fitting
            }
            groups.append(Group(count=cells // (models * benchmarks), ways=ways))
    return Problem(slots=hosts, groups=tuple(groups), loads=loads, transfers=transfers)


def distinct_problem(seed: int, *, models: int = 20, bring: float = 100) -> Problem:
    """200 cells that all differ, on 8 machines."""
    return random_problem(seed, models=models, benchmarks=200 // models, bring=bring)


def _check(problem: Problem, found: Solution) -> None:
    """Each cell once, in slots that exist and do one thing at a time, within the bound."""
    for number, group in enumerate(problem.groups):
        run = [piece for piece in found.pieces if piece.group == number]
        assert len(run) == group.count
        assert {piece.host for piece in run} <= set(group.ways)
        for piece in run:
            way = group.ways[piece.host]
            assert len(set(piece.slots)) == way.width
            assert piece.end - piece.begin == pytest.approx(way.seconds)
    lanes: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for piece in found.pieces:
        for slot in piece.slots:
            assert slot < problem.slots[piece.host]
            lanes.setdefault((piece.host, slot), []).append((piece.begin, piece.end))
    for spans in lanes.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(spans))
    assert found.makespan == pytest.approx(max((p.end for p in found.pieces), default=0.0))
    assert found.bound <= found.makespan
    for numbers in problem.blocks.values():
        forms = {problem.groups[n].ways[host].form for n, host in found.counts if n in numbers}
        assert len(forms) == 1


def test_200_cells_on_8_machines_are_within_2_percent_of_the_bound() -> None:
    problem = random_problem(1)
    found = solver.solved(problem, limit=0.3, seconds=_EVER)
    _check(problem, found)
    assert found.gap <= 0.02


def test_200_cells_that_all_differ_are_within_2_percent_of_the_bound() -> None:
    problem = distinct_problem(1)
    assert {group.count for group in problem.groups} == {1}
    found = solver.solved(problem, limit=0.3, seconds=_EVER)
    _check(problem, found)
    assert found.gap <= 0.02


def test_200_cells_of_models_that_take_long_to_bring_are_near_the_bound() -> None:
    """An hour for each machine: what differs is above all which machine has which model."""
    problem = distinct_problem(1, bring=2000)
    found = solver.solved(problem, limit=0.3, seconds=_EVER)
    _check(problem, found)
    assert found.gap <= 0.02


def test_long_cells_that_cannot_share_a_slot_raise_the_bound() -> None:
    hosts = {"a": 2, "b": 1}
    group = Group(count=4, ways=dict.fromkeys(hosts, Way(seconds=10)))
    found = solver.solved(Problem(slots=hosts, groups=(group,)))
    assert found.makespan == 20
    assert found.gap <= 0.02  # by time alone it could be done in 13.3 seconds


def test_what_is_brought_is_brought_once_however_cells_wander() -> None:
    problem = random_problem(4)
    lanes = Lanes(problem, search.greedy(problem))
    random = Random(4)
    for _ in range(500):
        source = random.choice([lane for lane, held in enumerate(lanes.held) if held])
        number = random.choice(list(lanes.held[source]))
        lanes.change(source, number, -1)
        lanes.change(random.choice(list(lanes.ways[number])), number, 1)
    again = Lanes(problem, lanes.counts)
    assert sum(lanes.counts.values()) == 200
    pieces = lanes.pieces()
    for host in problem.slots:
        work = sum(lanes.work[lane] for lane in lanes.of_host(host))
        run = sum(p.end - p.begin for p in pieces if p.host == host and p.group is not None)
        mine = {(lane, model) for lane in lanes.of_host(host) for model in lanes.models[lane]}
        loads = sum(problem.load(host, model) for _, model in mine)
        brings = sum(problem.transfer(host, model) for model in {model for _, model in mine})
        assert work == pytest.approx(run + loads + brings, abs=1e-6)
    assert again.counts == lanes.counts


def test_a_walk_from_a_bad_plan_finds_one_that_many_moves_are_between() -> None:
    problem = random_problem(2, models=5, benchmarks=2, cells=50)
    plan = walked(Lanes(problem, search.greedy(problem)), goal=0.0, seed=0)
    assert ended(plan) <= 5800  # 5,361 is proven to be the least; past no worse plan: 6,294


def test_few_cells_are_told_apart_by_slot() -> None:
    hosts = {"a": 2, "b": 2}
    groups = [_one(seconds, *hosts, model="") for seconds in (70, 60, 60, 50, 50, 30, 30, 30)]
    found = solver.solved(Problem(slots=hosts, groups=tuple(groups)), limit=0.1)
    assert found.makespan == 100
    assert found.gap == pytest.approx(0.0, abs=0.003)  # all together are 95 a slot


def test_a_seed_repeats_a_plan() -> None:
    problem = random_problem(3, models=3, benchmarks=4, cells=36)
    one, other = (solver.solved(problem, seed=7, limit=0.1, seconds=_EVER) for _ in range(2))
    assert one == other


def test_without_the_solver_the_gap_is_told_by_a_bound_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solver, "find_spec", lambda _: None)
    problem = random_problem(1)
    found = solver.solved(problem, limit=0.3, seconds=_EVER)
    _check(problem, found)
    assert found.by == "search"
    assert found.gap <= 0.1


def test_loading_is_paid_once_for_each_slot_and_bringing_once_for_each_machine() -> None:
    problem = Problem(
        slots={"a": 2},
        groups=(_one(10, "a", count=4),),
        loads={("a", "m"): 3},
        transfers={("a", "m"): 7},
    )
    pieces = schedule(problem, "a", shares(problem, "a", {0: 4}))
    loading = sorted((p.begin, p.end) for p in pieces if p.group is None)
    assert loading == [(0, 10), (0, 10)]  # the second waits until the first has brought it
    assert ended(pieces) == 30


def test_a_slot_changes_its_model_as_seldom_as_can_be() -> None:
    problem = Problem(
        slots={"a": 1, "b": 1},
        groups=(_one(10, "a", "b", count=4, model="x"), _one(10, "a", "b", count=4, model="y")),
        loads={(host, model): 8.0 for host in "ab" for model in "xy"},
    )
    found = solver.solved(problem, limit=0.5)
    assert found.makespan == 48
    assert {host: {n for n, where in found.counts if where == host} for host in "ab"} in (
        {"a": {0}, "b": {1}},
        {"a": {1}, "b": {0}},
    )


def test_a_wide_cell_has_its_slots_for_itself() -> None:
    problem = Problem(slots={"box": 4}, groups=(_one(10, "box", width=3), _one(4, "box", count=6)))
    found = solver.solved(problem, limit=0.2)
    _check(problem, found)
    assert found.makespan <= 18


def test_a_block_is_run_in_one_form() -> None:
    full, small = Way(seconds=10, model="full"), Way(seconds=6, model="small", form=1)
    both = {"big": full, "little": small}
    groups = (Group(count=4, ways=both, block="b"), Group(count=3, ways=both, block="b"))
    problem = Problem(slots={"big": 1, "little": 1}, groups=groups)
    found = solver.solved(problem, limit=0.3)
    _check(problem, found)
    assert found.makespan == 42  # all with the variant, though the other machine then idles


def test_a_slow_machine_gets_little_and_an_unfit_one_nothing() -> None:
    ways = {"fast": Way(seconds=1), "slow": Way(seconds=10)}
    problem = Problem(
        slots={"fast": 1, "slow": 1, "unfit": 4}, groups=(Group(count=22, ways=ways),)
    )
    found = solver.solved(problem, limit=0.3)
    assert found.makespan == 20
    assert found.counts == {(0, "fast"): 20, (0, "slow"): 2}


def test_what_can_run_nowhere_is_no_problem_for_a_planner() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        solver.solved(Problem(slots={"a": 1}, groups=(Group(count=1, ways={}),)))


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
        _check(problem, solver.solved(problem, limit=0.1, seconds=_EVER))


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(["cut", "apart", "patterns"]), st.sampled_from([1.004, 1.5]))
def test_no_plan_is_sooner_than_what_is_proven(
    problem: Problem, how: Literal["cut", "apart", "patterns"], known: float
) -> None:
    plan = walked(Lanes(problem, search.greedy(problem)), goal=0.0, seed=0)
    asked = Asked(
        problem=problem,
        known=known * ended(plan),
        bound=0.0,
        how=how,
        seed=0,
        limit=0.1,
        seconds=_EVER,
    )
    assert answered(asked).bound <= ended(plan) + 1e-6


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
    bound = covered(problem, known=1.3 * ended(plan), bound=0.0, limit=0.1, left=lambda: _EVER)
    assert bound <= ended(plan) + 1e-6


def test_patterns_prove_what_counting_work_cannot() -> None:
    """Three slots and four cells of which no two are done before 20; by their work, 13.3."""
    ways = dict.fromkeys(("a", "b"), Way(seconds=10, model="m"))
    slots = {"a": 2, "b": 1}
    problem = Problem(slots=slots, groups=tuple(Group(count=1, ways=ways) for _ in range(4)))
    bound = covered(problem, known=21.0, bound=0.0, left=lambda: _EVER)
    assert bound == pytest.approx(20.0, rel=0.001)


@pytest.mark.parametrize(("cells", "seed"), [(10, 3), (10, 12), (25, 12), (25, 23), (50, 13)])
def test_a_study_on_machines_that_people_have_is_within_2_percent_of_the_bound(
    cells: int, seed: int, tmp_path: Path
) -> None:
    """Models that come over Wi-Fi, slots that share a small memory, eight GPUs that wait for one
    model; and one (25, 23) that CP-SAT itself has aborted on."""
    planner, study = labs.assigner(seed, cells=cells, folder=tmp_path)
    plan = planner.plan(study, limit=0.6, seconds=_EVER)
    assert len(plan.given) == len(study)
    assert plan.gap <= 0.02


def test_groups_that_are_alike_are_planned_as_one_and_told_apart_again() -> None:
    problem = Problem(slots={"a": 2}, groups=tuple(_one(5, "a", count=n) for n in (1, 2, 3)))
    simpler, made_of = merged(problem)
    assert [group.count for group in simpler.groups] == [6]
    assert made_of == [[0, 1, 2]]
    _check(problem, solver.solved(problem))


def test_slots_that_wait_for_a_model_raise_the_bound() -> None:
    """Work and bringing come to 21 seconds for each slot, but neither begins before 10."""
    groups = (_one(4, "a", count=8),)
    found = solver.solved(Problem(slots={"a": 2}, groups=groups, transfers={("a", "m"): 10.0}))
    assert found.makespan == 26
    assert found.gap <= 0.005


def test_time_that_is_over_ends_it_with_the_plan_that_there_is() -> None:
    problem, now = random_problem(2, models=5, benchmarks=2, cells=50), iter(range(1000))
    found = solver.solved(problem, seconds=20, clock=lambda: float(next(now)))
    _check(problem, found)
    assert next(now) < 100


@pytest.mark.parametrize(
    ("program", "by"),
    [("pass", "OR-Tools ended"), ("import time; time.sleep(1000)", "OR-Tools and search")],
)
def test_a_solver_that_dies_or_hangs_leaves_a_plan(
    monkeypatch: pytest.MonkeyPatch, program: str, by: str
) -> None:
    monkeypatch.setattr(asking, "_PROGRAM", [sys.executable, "-c", program])
    problem = random_problem(2, models=5, benchmarks=2, cells=50)
    found = solver.solved(problem, limit=0.05, seconds=1.5)
    _check(problem, found)
    assert by in found.by
