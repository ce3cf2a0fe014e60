"""A plan to begin with, by rule; and what a plan comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from .problem import Counts, Piece, Problem, Solution
from .walk import ended


def solution(pieces: Sequence[Piece], *, bound: float, by: str) -> Solution:
    """What the pieces come to."""
    end = ended(pieces)
    return Solution(
        counts=counted(pieces), pieces=tuple(pieces), makespan=end, bound=min(bound, end), by=by
    )


def counted(pieces: Sequence[Piece]) -> Counts:
    """How many cells of each group each machine runs."""
    return Counter((piece.group, piece.host) for piece in pieces if piece.group is not None)


def greedy(problem: Problem) -> Counts:
    """The longest cells first, each to the machine that is done first with it."""
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
