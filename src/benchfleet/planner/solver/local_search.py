"""Local search: simulated annealing that moves cells between slots."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf
from random import Random

from .problem import Piece, makespan
from .timelines import Timelines

_AIM = 0.8  # of the way from the best plan's end to the goal
_MIN_GAIN, _MAX_GAIN = 0.001, 0.05  # of the end, that is aimed at
_HEAT = 5.0  # of the end, divided by the cells: the worst move accepted at first
_REFINE_HEAT = 0.005  # of the end: the same near a good plan
_MOVES = 1_200_000  # divided by the cells: a move takes longer where there are many
_MIN_MOVES, _MOVES_PER_CELL = 3_000, 240
_FEW_CELLS = 50
_LATE = 0.7  # of the moves begin on a machine that ends late, others anywhere
_CLOCK_MOVES = 64  # between two looks at the clock
_Move = list[tuple[int, int, int]]  # lane, group, change of its cells


def anneal(
    timelines: Timelines,
    *,
    goal: float,
    seed: int,
    effort: float = 1.0,
    refine: bool = False,
    time_left: Callable[[], float] = lambda: inf,
) -> list[Piece]:
    """The best plan found from here. Blocks keep their forms; `effort` 1.0 is the usual number of
    moves, and `refine` begins cold, near the plan. It stops at a plan that ends by `goal`, or when
    no seconds are `left`, and cools faster where those do not suffice."""
    cells = sum(timelines.counts.values())
    moves = round(effort * min(max(_MOVES // max(1, cells), _MIN_MOVES), _MOVES_PER_CELL * cells))
    hottest = _REFINE_HEAT if refine else _HEAT / max(_FEW_CELLS, cells)
    best = timelines.pieces()
    end = makespan(best)
    search = _Annealing(timelines, seed)
    search.aim(_target(end, goal))
    begin = now = time_left()
    for done in range(moves):
        if done % _CLOCK_MOVES == 0:
            now = time_left()
        if end <= goal or now <= 0:
            break
        part = done / moves if begin == inf else max(done / moves, 1 - now / begin)
        heat = (hottest * end * (1 - part)) ** 2
        if search.step(heat) and timelines.end() < end * (1 - _MIN_GAIN / 2):
            pieces = timelines.pieces()
            if (sooner := makespan(pieces)) < end:
                best, end = pieces, sooner
                search.aim(_target(end, goal))
    return best


def _target(end: float, goal: float) -> float:
    """The end to aim at. Too near, nothing looks late; too far, everything does."""
    return end - max(_MIN_GAIN * end, min(_AIM * (end - goal), _MAX_GAIN * end))


class _Annealing:
    """Moves between lanes; the cost is the squared lateness of all slots."""

    def __init__(self, timelines: Timelines, seed: int) -> None:
        problem = timelines.problem
        self._timelines, self._random = timelines, Random(seed)  # noqa: S311 - a plan is no secret
        form = {number: problem.groups[number].ways[host].form for number, host in timelines.counts}
        bound = {number for numbers in problem.blocks.values() for number in numbers}
        self._open = [  # lanes that may run each group
            [
                timeline
                for host, way in group.ways.items()
                if number not in bound or way.form == form[number]
                for timeline in timelines.of[host, way.width]
            ]
            for number, group in enumerate(problem.groups)
        ]
        self._may = [frozenset(open_) for open_ in self._open]
        self._end = 0.0
        self._late: dict[str, float] = {}  # by machine

    def aim(self, end: float) -> None:
        """What ends after this is late from now on."""
        self._end = end
        self._late = {
            host: self._timelines.late(host, end) for host in self._timelines.problem.slots
        }

    def step(self, heat: float) -> bool:
        """Try a move; whether it was kept. `heat` is how much worse it may be."""
        move = self._draw()
        if not move:
            return False
        timelines = self._timelines
        for timeline, number, change in move:
            timelines.change(timeline, number, change)
        hosts = dict.fromkeys(timelines.hosts[timeline] for timeline, _, _ in move)
        now = {host: timelines.late(host, self._end) for host in hosts}
        worse = sum(now.values()) - sum(self._late[host] for host in hosts)
        if worse > 0 and (heat <= 0 or self._random.random() >= exp(-worse / heat)):
            for timeline, number, change in reversed(move):
                timelines.change(timeline, number, -change)
            return False
        self._late.update(now)
        return True

    def _pair(self, *, late: bool) -> tuple[int, int, int] | None:
        """A lane, one of its groups, and another lane that may run that."""
        random, timelines = self._random, self._timelines
        hosts = [host for host, seconds in self._late.items() if seconds > 0] if late else []
        if hosts:
            among = timelines.of_host(random.choice(hosts))
            two = random.choice(among), random.choice(among)
            source = max(two, key=lambda timeline: timelines.work[timeline])
        else:
            source = random.randrange(len(timelines.cells))
        if not timelines.cells[source]:
            return None
        number = random.choice(list(timelines.cells[source]))
        target = random.choice(self._open[number])
        return None if target == source else (source, number, target)

    def _draw(self) -> _Move:
        """A random move: a cell or all cells of a model to another lane, or swapped with its."""
        random, timelines = self._random, self._timelines
        if (pair := self._pair(late=random.random() < _LATE)) is None:
            return []
        source, number, target = pair
        if (kind := random.random()) < 0.4:
            return [(source, number, -1), (target, number, 1)]
        whole = kind > 0.8
        going = self._of_model(source, number) if whole else [number]
        coming: list[int] = []
        if (not whole or kind > 0.9) and (
            back := [n for n in timelines.cells[target] if n != number]
        ):
            other = random.choice(back)
            coming = self._of_model(target, other) if whole else [other]
        if not all(target in self._may[n] for n in going):
            return []
        if not all(source in self._may[n] for n in coming):
            return []
        move: _Move = []
        for one, other, numbers in ((source, target, going), (target, source, coming)):
            for n in numbers:
                count = timelines.cells[one][n] if whole else 1
                move += [(one, n, -count), (other, n, count)]
        return move

    def _of_model(self, timeline: int, number: int) -> list[int]:
        ways = self._timelines.ways
        model = ways[number][timeline][1]
        return [n for n in self._timelines.cells[timeline] if ways[n][timeline][1] == model]
