"""A plan by search and OR-Tools together, each in a process and on a core of its own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec

from .alike import merged, parted
from .asking import Answer, Asked, How, Solving
from .lanes import Lanes, placed
from .problem import Counts, Problem, Solution
from .relaxed import relaxed, rounded
from .search import greedy, solution
from .walk import GOOD, ended, walked

SECONDS = 9.0  # by the clock, that a plan takes at most
_BRIEF = 0.25  # of a walk: before anything is asked, which needs a plan to begin with
_Round = tuple[How, float, float]
_ROUNDS: tuple[_Round, ...] = (
    ("cut", 0.5, 1.0),  # what is asked, how long that looks, and how long the walk goes meanwhile
    ("patterns", 1.0, 3.0),
    ("apart", 0.4, 1.0),
    ("apart", 0.4, 1.0),
)
_FEW = (
    1200  # kinds of cells times slots: of more, neither patterns nor slots told apart end in time
)
_OF_MANY: tuple[_Round, ...] = (("cut", 1.0, 2.0),)
_LAST = 6  # walks, when nothing is asked any more
_ALONE = 10.0  # walks where there is no OR-Tools


def available() -> bool:
    """Whether OR-Tools is installed (``pip install 'benchfleet[plan]'``)."""
    return find_spec("ortools") is not None


def solved(
    problem: Problem,
    *,
    seed: int = 0,
    limit: float = 1.0,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Solution:
    """A plan by search and solvers. `limit` is how long both look, in their own time: the same plan
    every time, but where that takes longer than so many `seconds` of the clock.

    Raises ValueError where a group can run nowhere.
    """
    if not all(group.ways for group in problem.groups):
        raise ValueError("some cells can run nowhere")
    over = clock() + seconds
    simpler, made_of = merged(problem)
    planner = _Planner(simpler, seed=seed, left=lambda: over - clock())
    if not available():
        planner.walk(_ALONE * limit)
    elif not planner.good:
        planner.work(limit)
    plan = parted(problem, made_of, planner.plan)
    return solution(plan, bound=planner.bound, by=planner.by)


class _Planner:
    """The best plan so far, what none can beat, and where the next walks begin."""

    def __init__(self, problem: Problem, *, seed: int, left: Callable[[], float]) -> None:
        self._problem, self._seed, self._left = problem, seed, left
        self.bound, parts = relaxed(problem)
        self._starts = [Lanes(problem, greedy(problem)), Lanes(problem, rounded(problem, parts))]
        self.by = "search"
        self._near = False  # whether the solver had its say, so that walks need not go far
        self.plan = min((lanes.pieces() for lanes in self._starts), key=ended)

    @property
    def good(self) -> bool:
        """Whether more searching is worth nothing."""
        return ended(self.plan) <= self.bound * (1 + GOOD)

    def work(self, limit: float) -> None:
        """Round after round a solver and a walk look for a better plan at the same time."""
        problem = self._problem
        numbers = sum(problem.slots[host] for group in problem.groups for host in group.ways)
        with Solving(self._left) as solving:
            self.walk(_BRIEF * limit)
            for number, (how, part, times) in enumerate(_ROUNDS if numbers <= _FEW else _OF_MANY):
                if self.good or self._left() <= 0:
                    return
                solving.ask(
                    Asked(
                        problem=problem,
                        known=ended(self.plan),
                        bound=self.bound,
                        how=how,
                        seed=self._seed + number,
                        limit=part * limit,
                        seconds=self._left() / (2 if how == "cut" else 1),
                    )
                )
                self.by = "OR-Tools and search"
                if how == "patterns":
                    self._anew(times * limit)
                else:
                    self.walk(times * limit)
                self._heed(solving.answer())
                if solving.ended:
                    self.by = "search, since OR-Tools ended abnormally"
                    self.walk(_ALONE * limit)
                    return
        for number in range(_LAST):
            self._near = number % 2 == 0  # every other one passes worse plans, too
            self.walk(limit)

    def walk(self, times: float) -> None:
        """So many walks as long as usual; the next begin where the best plan is."""
        for number, lanes in enumerate(self._starts):
            other = walked(
                lanes,
                goal=self.bound * (1 + GOOD),
                seed=self._seed + number,
                times=times / len(self._starts),
                good=self._near,
                left=self._left,
            )
            self.plan = min(self.plan, other, key=ended)
        self._seed += len(self._starts)
        self._starts = [Lanes(self._problem, {}, placed(self.plan))]

    def _anew(self, times: float) -> None:
        """One long walk from where all began, past many worse plans."""
        lanes = Lanes(self._problem, greedy(self._problem))
        goal, seed = self.bound * (1 + GOOD), self._seed
        other = walked(lanes, goal=goal, seed=seed, times=times, left=self._left)
        self._starts.append(Lanes(self._problem, {}, placed(other)))
        self.plan = min(self.plan, other, key=ended)

    def _heed(self, answer: Answer) -> None:
        """Go on from what the solver found, too."""
        self.bound, self._near = max(self.bound, answer.bound), True
        if not answer.cells:
            return
        counts: Counts = Counter()
        for (number, host, _), count in answer.cells.items():
            counts[number, host] += count
        known = {key: count for key, count in answer.cells.items() if key[1] in answer.apart}
        lanes = Lanes(self._problem, counts, known)
        self.plan = min(self.plan, lanes.pieces(), key=ended)
        self._starts.append(lanes)
