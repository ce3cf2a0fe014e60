"""Problems for the planner, and what every plan must hold."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from benchfleet.planner.solver.problem import Group, Problem, Solution, Way

EVER = 1000.0  # seconds, so that no test depends on a clock


def alike(seconds: float, *hosts: str, count: int = 1, model: str = "m", width: int = 1) -> Group:
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
            max(speed, key=lambda host: speed[host])
        ]
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


def check(problem: Problem, found: Solution) -> None:
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
