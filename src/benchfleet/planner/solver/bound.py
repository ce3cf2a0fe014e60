"""A lower bound without a solver, and the split of cells over machines that belongs to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import exp, inf

from .problem import Counts, Group, Problem

_ITERATIONS = 1200


def fractional_bound(problem: Problem) -> tuple[float, list[dict[str, float]]]:
    """Seconds that no plan beats, and the share of each group by machine if cells could be split.

    The bound is the dual of that split, where all cells of a model share its loading, or the
    slowest single cell. It is found by multiplicative weights: those of overloaded machines grow
    until the load is even. The choices on the way, averaged, are the shares.
    """
    totals: dict[str, int] = {}
    for group in problem.groups:
        for model in {way.model for way in group.ways.values()}:
            totals[model] = totals.get(model, 0) + group.count
    costs = [
        [(host, group.count * _cost(problem, host, group, totals)) for host in sorted(group.ways)]
        for group in problem.groups
    ]
    best = max(map(partial(_single_cell, problem), problem.groups), default=0.0)
    hosts = sorted(problem.slots)
    weights = {host: 1 / len(hosts) for host in hosts}
    parts: list[dict[str, float]] = [{} for _ in problem.groups]
    for iteration in range(_ITERATIONS):
        load = dict.fromkeys(hosts, 0.0)
        value = 0.0
        for part, cost in zip(parts, costs, strict=True):
            least, chosen, chosen_seconds = inf, "", 0.0
            for host, seconds in cost:
                if (weighted := weights[host] * seconds) < least:
                    least, chosen, chosen_seconds = weighted, host, seconds
            value += least
            load[chosen] += chosen_seconds
            if 4 * iteration >= _ITERATIONS:
                part[chosen] = part.get(chosen, 0.0) + 1
        best = max(best, value)
        most = max(load.values()) or 1.0
        step = 0.3 / (1 + iteration / 30)
        weights = {host: weights[host] * exp(step * load[host] / most) for host in hosts}
        total = sum(weights.values())
        weights = {host: weight / total for host, weight in weights.items()}
    return best, [
        {host: times / sum(part.values()) for host, times in part.items()} for part in parts
    ]


def round_shares(problem: Problem, shares: Sequence[Mapping[str, float]]) -> Counts:
    """Whole cells nearest to these shares, each block in the form of most of its cells."""
    forms: dict[int, int] = {}
    for name, numbers in problem.blocks.items():
        mass = dict.fromkeys(problem.forms(name), 0.0)
        for number in numbers:
            for host, share in shares[number].items():
                form = problem.groups[number].ways[host].form
                if form in mass:
                    mass[form] += share * problem.groups[number].count
        form = max(mass, key=lambda one: (mass[one], -one))
        forms.update(dict.fromkeys(numbers, form))
    counts: Counts = {}
    for number, (group, part) in enumerate(zip(problem.groups, shares, strict=True)):
        allowed = [
            host
            for host, way in group.ways.items()
            if number not in forms or way.form == forms[number]
        ]
        targets = {host: group.count * part.get(host, 0.0) for host in allowed}
        if not any(targets.values()):
            targets[min(allowed, key=lambda host: (group.ways[host].seconds, host))] = 1.0
        scale = group.count / sum(targets.values())
        whole = {host: int(share * scale) for host, share in targets.items()}
        rest = sorted(targets, key=lambda host: (whole[host] - targets[host] * scale, host))
        for host in rest[: group.count - sum(whole.values())]:
            whole[host] += 1
        counts.update({(number, host): count for host, count in whole.items() if count})
    return counts


def _single_cell(problem: Problem, group: Group) -> float:
    """Seconds of one cell of the group on idle machines, with loading."""
    return min(
        way.seconds + problem.load(host, way.model) + problem.transfer(host, way.model)
        for host, way in group.ways.items()
    )


def _cost(problem: Problem, host: str, group: Group, totals: Mapping[str, int]) -> float:
    """Machine seconds of one cell, with its part of loading the model."""
    way = group.ways[host]
    once = (problem.load(host, way.model) * way.width + problem.transfer(host, way.model)) / max(
        1, totals[way.model]
    )
    return (way.seconds * way.width + once) / problem.slots[host]
