"""A good plan without a solver, and a bound that none can beat: greedy, then local search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from math import exp, inf
from random import Random

from .problem import Counts, Group, Piece, Problem, Solution
from .schedule import makespan, schedule

GOOD = 0.005  # of the bound: a plan so near to it is not worth more searching
_ROUNDS = 1200  # of the bound's ascent
_TRIES = 1_500  # schedules of one machine that a search looks at
_LAID_OUT = 24  # moves of a step that are laid out in time, of those that promise most


class Plan:
    """Counts that change, with the makespan of every machine."""

    def __init__(self, problem: Problem, counts: Counts) -> None:
        self.problem = problem
        self._by_host: dict[str, dict[int, int]] = {host: {} for host in problem.slots}
        for (number, host), count in counts.items():
            if count:
                self._by_host[host][number] = count
        self._known: dict[tuple[str, tuple[tuple[int, int], ...]], float] = {}
        self.looked = 0
        self.ends = {host: self._end(host, held) for host, held in self._by_host.items()}

    @property
    def counts(self) -> Counts:
        return {
            (number, host): count
            for host, held in self._by_host.items()
            for number, count in held.items()
        }

    @property
    def makespan(self) -> float:
        return max(self.ends.values(), default=0.0)

    def held(self, host: str) -> Mapping[int, int]:
        return self._by_host[host]

    def models(self, host: str) -> dict[str, int]:
        """The models that it loads, each with how many cells it has of them."""
        found: dict[str, int] = {}
        for number, count in self._by_host[host].items():
            model = self.problem.groups[number].ways[host].model
            found[model] = found.get(model, 0) + count
        return found

    def form(self, number: int) -> int | None:
        """The form in which the group's block is run; None where that is open."""
        block = self.problem.groups[number].block
        for host, held in self._by_host.items():
            for other in held:
                if other == number or (block and self.problem.groups[other].block == block):
                    return self.problem.groups[other].ways[host].form
        return None

    def after(self, host: str, changes: Mapping[int, int]) -> float:
        """When the machine would be done with so many cells more of each group."""
        held = dict(self._by_host[host])
        for number, change in changes.items():
            held[number] = held.get(number, 0) + change
        return self._end(host, {number: count for number, count in held.items() if count})

    def change(self, host: str, changes: Mapping[int, int]) -> None:
        held = self._by_host[host]
        for number, change in changes.items():
            held[number] = held.get(number, 0) + change
            if not held[number]:
                del held[number]
        self.ends[host] = self._end(host, held)

    def _end(self, host: str, held: Mapping[int, int]) -> float:
        key = (host, tuple(sorted(held.items())))
        if key not in self._known:
            self.looked += 1
            self._known[key] = makespan(self.problem, host, held)
        return self._known[key]


def solved(problem: Problem, *, seed: int = 0) -> Solution:
    """A plan by search alone. Raises ValueError where a group can run nowhere."""
    plan, bound = searched(problem, seed=seed)
    return solution(plan, bound=bound, by="search")


def searched(problem: Problem, *, seed: int = 0) -> tuple[Plan, float]:
    """A good plan, and what none can beat."""
    if not all(group.ways for group in problem.groups):
        raise ValueError("some cells can run nowhere")
    bound, parts = relaxed(problem)
    plans = [greedy(problem), rounded(problem, parts)]
    for plan in plans:
        _descend(plan, _TRIES)
    plan = min(plans, key=_ends)
    improve(plan, seed=seed, least=bound * (1 + GOOD))
    return plan, bound


def solution(plan: Plan, *, bound: float, by: str) -> Solution:
    """What the plan comes to."""
    pieces: list[Piece] = []
    for host in plan.problem.slots:
        pieces += schedule(plan.problem, host, plan.held(host))
    return Solution(
        counts=plan.counts,
        pieces=tuple(pieces),
        makespan=plan.makespan,
        bound=min(bound, plan.makespan),
        by=by,
    )


def greedy(problem: Problem) -> Plan:
    """The longest cells first, each to the machine that is done first with it."""
    plan = Plan(problem, {})
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
            plan.change(host, {number: 1})
    return plan


def _open(problem: Problem, chosen: Mapping[str, int], block: str, form: int) -> bool:
    return form == chosen[block] if block in chosen else form in problem.forms(block)


def improve(plan: Plan, *, seed: int = 0, tries: int = _TRIES, least: float = 0.0) -> None:
    """Move and swap cells between machines while that ends earlier what ends last; where nothing
    does, a few random moves are made and taken back if they led to nothing. A plan that is as
    short as `least` is good enough."""
    random = Random(seed)  # noqa: S311 - a plan is no secret
    _descend(plan, tries)
    best, ends = plan.counts, _ends(plan)
    stale = 0
    tries += plan.looked
    while plan.looked < tries and stale < 30 and plan.makespan > least:
        _shake(plan, random)
        _descend(plan, tries - plan.looked)
        if _ends(plan) < ends:
            best, ends, stale = plan.counts, _ends(plan), 0
        else:
            stale += 1
            restore(plan, best)
    restore(plan, best)


def restore(plan: Plan, counts: Counts) -> None:
    """Go back to these counts."""
    for host in plan.problem.slots:
        changes = {number: -count for number, count in plan.held(host).items()}
        for (number, where), count in counts.items():
            if where == host:
                changes[number] = changes.get(number, 0) + count
        plan.change(host, {number: change for number, change in changes.items() if change})


def _ends(plan: Plan) -> tuple[float, float]:
    """What is to become small: the last end, and then all of them, squared."""
    return round(plan.makespan, 6), round(sum(end * end for end in plan.ends.values()), 3)


def _descend(plan: Plan, tries: int) -> None:
    """Make the move that helps the machine that ends last most, until none does. Only moves that
    promise something by area are laid out."""
    tries += plan.looked
    while plan.looked < tries:
        source = max(plan.ends, key=lambda host: (plan.ends[host], host))
        models = {host: plan.models(host) for host in plan.problem.slots}
        promising = nsmallest(
            _LAID_OUT,
            (
                (worst, order, target, moved)
                for order, (target, moved) in enumerate(_moves(plan, source))
                if (worst := _guess(plan, models, source, target, moved)) < 1.02 * plan.ends[source]
            ),
        )
        best: tuple[float, float] | None = None
        chosen: tuple[str, dict[int, int]] | None = None
        for _, _, target, moved in promising:
            ends = plan.after(source, _turned(moved)), plan.after(target, moved)
            if max(ends) < plan.ends[source] * (1 - 1e-9) and (
                best is None or (max(ends), sum(ends)) < best
            ):
                best, chosen = (max(ends), sum(ends)), (target, moved)
        if chosen is None:
            return
        target, moved = chosen
        plan.change(source, _turned(moved))
        plan.change(target, moved)


def _turned(moved: Mapping[int, int]) -> dict[int, int]:
    return {number: -count for number, count in moved.items()}


def _guess(
    plan: Plan,
    models: Mapping[str, Mapping[str, int]],
    source: str,
    target: str,
    moved: Mapping[int, int],
) -> float:
    """When the later of the two would be done, by the time that all their slots have."""
    problem = plan.problem
    ends = []
    for host, sign in ((source, -1), (target, 1)):
        change = 0.0
        held, fresh = models[host], dict[str, None]()
        left: dict[str, int] = {}
        for number, count in moved.items():
            way = problem.groups[number].ways[host]
            change += sign * count * way.seconds * way.width
            if sign * count > 0 and way.model not in held:
                fresh[way.model] = None
            left[way.model] = left.get(way.model, 0) - sign * count
        gone = [model for model, count in left.items() if count and count == held.get(model)]
        for model, sign in (*((one, 1) for one in fresh), *((one, -1) for one in gone)):
            change += sign * (problem.load(host, model) + problem.transfer(host, model))
        ends.append(plan.ends[host] + change / problem.slots[host])
    return max(ends)


def _moves(plan: Plan, source: str) -> Iterator[tuple[str, dict[int, int]]]:
    """Cells that may go from the machine to another, and others that come for them."""
    problem = plan.problem
    mine = list(plan.held(source))
    for target in problem.slots:
        if target == source:
            continue
        going = [number for number in mine if _may(problem, number, source, target)]
        coming = [n for n in plan.held(target) if _may(problem, n, target, source)]
        for number in going:
            count = plan.held(source)[number]
            for many in {1, count // 2, count} - {0}:
                yield target, {number: many}
            for other in coming:
                if other != number:
                    yield target, {number: 1, other: -1}
        leaving, arriving = (
            _by_model(plan, host, numbers) for host, numbers in ((source, going), (target, coming))
        )
        for model, whole in leaving.items():
            if len(whole) > 1:
                yield target, whole
            for another, back in arriving.items():  # each loads one model less
                if another != model and len(whole) + len(back) > 2:
                    yield target, {**whole, **_turned(back)}


def _by_model(plan: Plan, host: str, numbers: Iterable[int]) -> dict[str, dict[int, int]]:
    """The cells of these groups that the machine has, by model."""
    found: dict[str, dict[int, int]] = {}
    for number in numbers:
        model = plan.problem.groups[number].ways[host].model
        found.setdefault(model, {})[number] = plan.held(host)[number]
    return found


def _may(problem: Problem, number: int, source: str, target: str) -> bool:
    ways = problem.groups[number].ways
    return target in ways and (
        not problem.blocks or ways[target].form == ways[source].form or _lone(problem, number)
    )


def _lone(problem: Problem, number: int) -> bool:
    return not any(number in numbers for numbers in problem.blocks.values())


def _shake(plan: Plan, random: Random) -> None:
    hosts = sorted(plan.problem.slots)
    for _ in range(3):
        source, target = random.choice(hosts), random.choice(hosts)
        going = [
            number
            for number in sorted(plan.held(source))
            if source != target and _may(plan.problem, number, source, target)
        ]
        if going:
            number = random.choice(going)
            plan.change(source, {number: -1})
            plan.change(target, {number: 1})


def lower_bound(problem: Problem) -> float:
    """Seconds that no plan can beat; see `relaxed`."""
    return relaxed(problem)[0]


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


def rounded(problem: Problem, parts: Sequence[Mapping[str, float]]) -> Plan:
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
    return Plan(problem, counts)


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
