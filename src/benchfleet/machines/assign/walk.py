"""A plan made better by moving cells between slots, towards an end that is aimed at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf
from random import Random

from .lanes import Lanes
from .problem import Piece

GOOD = 0.005  # of the bound: a plan so near to it is not worth more searching
_AIM = 0.8  # of the way from the best plan's end to the goal
_LEAST, _MOST = 0.001, 0.05  # of the end: how much sooner is aimed at
_HEAT = 5.0  # of the end, over the cells: what a move may worsen in the beginning
_WARM = 0.005  # of the end: the same where the plan was good already
_MOVES = 1_200_000  # times cells: a move takes longer where there are many
_FEWEST, _EACH = 3_000, 240  # of all, where there are many; for each, where there are few
_FEW = 50  # cells
_SCANS = 0.7  # of the moves are the best between two lanes; others are any
_LOOK = 64  # moves between two looks at the clock
_Move = list[tuple[int, int, int]]  # lane, group, cells more


def ended(pieces: Sequence[Piece]) -> float:
    """When the last is done."""
    return max((piece.end for piece in pieces), default=0.0)


def walked(
    lanes: Lanes,
    *,
    goal: float,
    seed: int,
    times: float = 1.0,
    good: bool = False,
    left: Callable[[], float] = lambda: inf,
) -> list[Piece]:
    """The best plan met on a walk from here, on which blocks keep their forms; `times` as long as
    is usual, and not far where the plan is `good`. One that ends by `goal` is good enough, and
    none is looked for when no seconds are `left`; it cools sooner where they would not suffice."""
    cells = sum(lanes.counts.values())
    moves = round(times * min(max(_MOVES // max(1, cells), _FEWEST), _EACH * cells))
    most = _WARM if good else _HEAT / max(_FEW, cells)
    best = lanes.pieces()
    end = ended(best)
    walk = _Walk(lanes, seed)
    walk.aim(_aim(end, goal))
    begin = now = left()
    for done in range(moves):
        if done % _LOOK == 0:
            now = left()
        if end <= goal or now <= 0:
            break
        part = done / moves if begin == inf else max(done / moves, 1 - now / begin)
        heat = (most * end * (1 - part)) ** 2
        if walk.step(heat) and lanes.end() < end * (1 - _LEAST / 2):
            pieces = lanes.pieces()
            if (sooner := ended(pieces)) < end:
                best, end = pieces, sooner
                walk.aim(_aim(end, goal))
    return best


def _aim(end: float, goal: float) -> float:
    """The end to aim at: too near, and nothing looks late; too far, and all looks as late."""
    return end - max(_LEAST * end, min(_AIM * (end - goal), _MOST * end))


class _Walk:
    """Simulated annealing over lanes; what counts is the squared lateness of all slots."""

    def __init__(self, lanes: Lanes, seed: int) -> None:
        problem = lanes.problem
        self._lanes, self._random = lanes, Random(seed)  # noqa: S311 - a plan is no secret
        form = {number: problem.groups[number].ways[host].form for number, host in lanes.counts}
        bound = {number for numbers in problem.blocks.values() for number in numbers}
        self._open = [  # lanes that may run each group
            [
                lane
                for host, way in group.ways.items()
                if number not in bound or way.form == form[number]
                for lane in lanes.of[host, way.width]
            ]
            for number, group in enumerate(problem.groups)
        ]
        self._may = [frozenset(open_) for open_ in self._open]
        self._end = 0.0
        self._late: dict[str, float] = {}  # by machine
        self.late = 0.0

    def aim(self, end: float) -> None:
        """From now on, what is done after this is late."""
        self._end = end
        self._late = {host: self._lanes.late(host, end) for host in self._lanes.problem.slots}
        self.late = sum(self._late.values())

    def step(self, heat: float) -> bool:
        """Try a move; whether it was made. `heat` is by how much it may worsen."""
        move = self._best() if self._random.random() < _SCANS else self._any()
        if not move:
            return False
        lanes = self._lanes
        for lane, number, change in move:
            lanes.change(lane, number, change)
        hosts = dict.fromkeys(lanes.hosts[lane] for lane, _, _ in move)
        now = {host: lanes.late(host, self._end) for host in hosts}
        worse = sum(now.values()) - sum(self._late[host] for host in hosts)
        if worse > 0 and (heat <= 0 or self._random.random() >= exp(-worse / heat)):
            for lane, number, change in reversed(move):
                lanes.change(lane, number, -change)
            return False
        self._late.update(now)
        self.late += worse
        return True

    def _pair(self, *, late: bool) -> tuple[int, int, int] | None:
        """A lane, one of its groups, and another lane that may run that."""
        random, lanes = self._random, self._lanes
        hosts = [host for host, seconds in self._late.items() if seconds > 0] if late else []
        if hosts:
            among = lanes.of_host(random.choice(hosts))
            two = random.choice(among), random.choice(among)
            source = max(two, key=lambda lane: lanes.work[lane])
        else:
            source = random.randrange(len(lanes.held))
        if not lanes.held[source]:
            return None
        number = random.choice(list(lanes.held[source]))
        target = random.choice(self._open[number])
        return None if target == source else (source, number, target)

    def _best(self) -> _Move:
        """What a late lane gives best to another, for a cell of that one or for nothing."""
        if (pair := self._pair(late=True)) is None:
            return []
        source, _, target = pair
        lanes = self._lanes
        mine, others = lanes.work[source] - self._end, lanes.work[target] - self._end
        back = [(-1, 0.0, 0.0), *self._costs(target, source)]
        best, chosen = -1.0, (-1, -1)
        for number, gone, come in self._costs(source, target):
            left, more = mine - gone, others + come
            for other, out, into in back:
                one, two = left + into, more - out
                late = (one * one if one > 0 else 0.0) + (two * two if two > 0 else 0.0)
                if (late < best or best < 0) and number != other:
                    best, chosen = late, (number, other)
        number, other = chosen
        move = [(source, number, -1), (target, number, 1)] if number >= 0 else []
        if other >= 0:
            move += [(target, other, -1), (source, other, 1)]
        return move

    def _costs(self, source: int, target: int) -> list[tuple[int, float, float]]:
        """The cells that may go from one to the other: what each frees, and what it takes there."""
        lanes = self._lanes
        one, other = lanes.hosts[source], lanes.hosts[target]
        found = []
        for number in lanes.held[source]:
            if target not in self._may[number]:
                continue
            gone, model, load, bring = lanes.ways[number][source]
            come, another, reload, rebring = lanes.ways[number][target]
            if lanes.models[source][model] == 1:
                gone += load
                if bring and one != other and lanes.having[one, model] == 1:
                    gone += bring
            if another not in lanes.models[target]:
                come += reload
                if rebring and one != other and not lanes.having.get((other, another)):
                    come += rebring
            found.append((number, gone, come))
        return found

    def _any(self) -> _Move:
        """One cell to another lane, or all of a model, or either for as much of that one."""
        random, lanes = self._random, self._lanes
        if (pair := self._pair(late=random.random() < _SCANS)) is None:
            return []
        source, number, target = pair
        if (kind := random.random()) < 0.4:
            return [(source, number, -1), (target, number, 1)]
        whole = kind > 0.8
        going = self._of_model(source, number) if whole else [number]
        coming: list[int] = []
        if (not whole or kind > 0.9) and (back := [n for n in lanes.held[target] if n != number]):
            other = random.choice(back)
            coming = self._of_model(target, other) if whole else [other]
        if not all(target in self._may[n] for n in going):
            return []
        if not all(source in self._may[n] for n in coming):
            return []
        move: _Move = []
        for one, other, numbers in ((source, target, going), (target, source, coming)):
            for n in numbers:
                count = lanes.held[one][n] if whole else 1
                move += [(one, n, -count), (other, n, count)]
        return move

    def _of_model(self, lane: int, number: int) -> list[int]:
        ways = self._lanes.ways
        model = ways[number][lane][1]
        return [n for n in self._lanes.held[lane] if ways[n][lane][1] == model]
