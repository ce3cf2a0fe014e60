"""A first plan by a greedy rule."""

from __future__ import annotations

from collections.abc import Mapping

from .problem import Counts, Problem


def greedy(problem: Problem) -> Counts:
    """Longest cells first, each to the machine that finishes it first."""
    counts: Counts = {}
    chosen: dict[str, int] = {}
    area = dict.fromkeys(problem.slots, 0.0)
    loaded: set[tuple[str, str]] = set()

    def grown(number: int, host: str) -> float:
        way = problem.groups[number].ways[host]
        fresh = 0.0
        if (host, way.model) not in loaded:
            fresh = problem.load(host, way.model) + problem.transfer(host, way.model)
        return area[host] + (way.seconds + fresh) * way.width / problem.slots[host]

    def fastest(number: int) -> float:
        return min(way.seconds for way in problem.groups[number].ways.values())

    for number in sorted(range(len(problem.groups)), key=lambda n: (-fastest(n), n)):
        group = problem.groups[number]
        name = group.block or f"#{number}"
        for _ in range(group.count):
            hosts = [
                host
                for host, way in group.ways.items()
                if name not in problem.blocks or _open(problem, chosen, name, way.form)
            ]
            host = min(hosts, key=lambda one: (grown(number, one), one))
            way = group.ways[host]
            area[host] = grown(number, host)
            loaded.add((host, way.model))
            if name in problem.blocks:
                chosen[name] = way.form
            counts[number, host] = counts.get((number, host), 0) + 1
    return counts


def _open(problem: Problem, chosen: Mapping[str, int], block: str, form: int) -> bool:
    return form == chosen[block] if block in chosen else form in problem.forms(block)
