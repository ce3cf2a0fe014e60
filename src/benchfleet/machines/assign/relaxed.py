"""A bound that no plan can beat, without a solver, and how cells would lie if they could be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import exp, inf

from .problem import Counts, Group, Problem

_ROUNDS = 1200  # of the bound's ascent


def relaxed(problem: Problem) -> tuple[float, list[dict[str, float]]]:
    """Seconds that no plan can beat, and which part of each group runs where if cells could be cut.

    The bound is that of the dual of sharing out fractions of cells, where loading is shared by all
    cells of a model, and that of the slowest single cell. Weights of machines that have too much
    are raised until all have as much (multiplicative weights); what was chosen on the way is, on
    the average, how the fractions lie.
    """
    totals: dict[str, int] = {}
    for group in problem.groups:
        for model in {way.model for way in group.ways.values()}:
            totals[model] = totals.get(model, 0) + group.count
    costs = [
        [(host, group.count * _share(problem, host, group, totals)) for host in sorted(group.ways)]
        for group in problem.groups
    ]
    best = max(map(partial(_alone, problem), problem.groups), default=0.0)
    hosts = sorted(problem.slots)
    weights = {host: 1 / len(hosts) for host in hosts}
    parts: list[dict[str, float]] = [{} for _ in problem.groups]
    for turn in range(_ROUNDS):
        load = dict.fromkeys(hosts, 0.0)
        value = 0.0
        for part, cost in zip(parts, costs, strict=True):
            least, chosen, taken = inf, "", 0.0
            for host, seconds in cost:
                if (weighted := weights[host] * seconds) < least:
                    least, chosen, taken = weighted, host, seconds
            value += least
            load[chosen] += taken
            if 4 * turn >= _ROUNDS:
                part[chosen] = part.get(chosen, 0.0) + 1
        best = max(best, value)
        most = max(load.values()) or 1.0
        step = 0.3 / (1 + turn / 30)
        weights = {host: weights[host] * exp(step * load[host] / most) for host in hosts}
        total = sum(weights.values())
        weights = {host: weight / total for host, weight in weights.items()}
    return best, [
        {host: times / sum(part.values()) for host, times in part.items()} for part in parts
    ]


def rounded(problem: Problem, parts: Sequence[Mapping[str, float]]) -> Counts:
    """Whole cells nearest to these fractions, each block in the form that most of it has."""
    forms: dict[int, int] = {}
    for name, numbers in problem.blocks.items():
        mass = dict.fromkeys(problem.forms(name), 0.0)
        for number in numbers:
            for host, share in parts[number].items():
                form = problem.groups[number].ways[host].form
                if form in mass:
                    mass[form] += share * problem.groups[number].count
        form = max(mass, key=lambda one: (mass[one], -one))
        forms.update(dict.fromkeys(numbers, form))
    counts: Counts = {}
    for number, (group, part) in enumerate(zip(problem.groups, parts, strict=True)):
        allowed = [
            host
            for host, way in group.ways.items()
            if number not in forms or way.form == forms[number]
        ]
        wanted = {host: group.count * part.get(host, 0.0) for host in allowed}
        if not any(wanted.values()):
            wanted[min(allowed, key=lambda host: (group.ways[host].seconds, host))] = 1.0
        scale = group.count / sum(wanted.values())
        whole = {host: int(share * scale) for host, share in wanted.items()}
        rest = sorted(wanted, key=lambda host: (whole[host] - wanted[host] * scale, host))
        for host in rest[: group.count - sum(whole.values())]:
            whole[host] += 1
        counts.update({(number, host): count for host, count in whole.items() if count})
    return counts


def _alone(problem: Problem, group: Group) -> float:
    """The time of one cell of the group, if it were all that is to be done."""
    return min(
        way.seconds + problem.load(host, way.model) + problem.transfer(host, way.model)
        for host, way in group.ways.items()
    )


def _share(problem: Problem, host: str, group: Group, totals: Mapping[str, int]) -> float:
    """What one cell takes of the machine's time, with its part of what its model costs there."""
    way = group.ways[host]
    once = (problem.load(host, way.model) * way.width + problem.transfer(host, way.model)) / max(
        1, totals[way.model]
    )
    return (way.seconds * way.width + once) / problem.slots[host]
