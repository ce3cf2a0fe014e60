"""A plan from a heuristic, local search and SCIP's relaxation (OR-Tools), within a time limit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from .bound import fractional_bound, round_shares
from .heuristic import greedy
from .local_search import anneal
from .problem import GOOD_GAP, Counts, Piece, Problem, Solution, makespan
from .solver_process import solver_process
from .symmetry import expand, merge
from .timelines import Timelines, placed

TIME_LIMIT_S = 9.0
_FIRST_EFFORT = 0.25  # of local search before the relaxation, which needs a plan
_MEANWHILE_EFFORT = 1.5  # of local search while the relaxation is solved
_ROUNDS = 8  # of local search after it


def available() -> bool:
    """Whether OR-Tools is installed (``pip install 'benchfleet[plan]'``)."""
    return find_spec("ortools") is not None


def solve(
    problem: Problem,
    *,
    seed: int = 0,
    effort: float = 1.0,
    seconds: float = TIME_LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
) -> Solution:
    """A plan, and a bound that no plan beats.

    `effort` scales the moves and nodes that are searched. A seed repeats the plan unless `seconds`
    end the search first.

    Raises ValueError where a group can run nowhere.
    """
    if not all(group.ways for group in problem.groups):
        raise ValueError("some cells can run nowhere")
    over = clock() + seconds
    smaller, members = merge(problem)
    search = _Search(smaller, seed=seed, time_left=lambda: over - clock())
    search.improve(_FIRST_EFFORT * effort)
    if available() and not search.done:
        search.relax(effort)
    for number in range(_ROUNDS):
        search.improve(effort, refine=number % 2 == 0)
    pieces = expand(problem, members, search.plan)
    end = makespan(pieces)
    return Solution(
        counts=_counts(pieces),
        pieces=tuple(pieces),
        makespan=end,
        bound=min(search.bound, end),
        by=search.by,
    )


class _Search:
    """The best plan and the best bound so far, and where the next local search begins."""

    def __init__(self, problem: Problem, *, seed: int, time_left: Callable[[], float]) -> None:
        self._problem, self._seed, self._time_left = problem, seed, time_left
        self.bound, shares = fractional_bound(problem)
        self._starts = [
            Timelines(problem, greedy(problem)),
            Timelines(problem, round_shares(problem, shares)),
        ]
        self.plan = min((timelines.pieces() for timelines in self._starts), key=makespan)
        self.by = "search"

    @property
    def done(self) -> bool:
        """Whether the plan is good enough or the time is over."""
        return makespan(self.plan) <= self.bound * (1 + GOOD_GAP) or self._time_left() <= 0

    def improve(self, effort: float, *, refine: bool = False) -> None:
        """Local search from every start; the next begins at the best plan."""
        for timelines in self._starts:
            other = anneal(
                timelines,
                goal=self.bound * (1 + GOOD_GAP),
                seed=self._seed,
                effort=effort / len(self._starts),
                refine=refine,
                time_left=self._time_left,
            )
            self.plan = min(self.plan, other, key=makespan)
            self._seed += 1
        self._starts = [Timelines(self._problem, {}, placed(self.plan))]

    def relax(self, effort: float) -> None:
        """Solve the relaxation, and search meanwhile."""
        with solver_process(
            self._problem,
            known_s=makespan(self.plan),
            seed=self._seed,
            effort=effort,
            seconds=self._time_left() / 2,
        ) as result:
            self.improve(_MEANWHILE_EFFORT * effort)
            relaxation = result(self._time_left())
        if relaxation is None:
            return
        self.by = "SCIP and search"
        self.bound = max(self.bound, relaxation.bound)
        if relaxation.counts:
            self._starts.append(Timelines(self._problem, relaxation.counts))


def _counts(pieces: Sequence[Piece]) -> Counts:
    """Cells of each group by machine."""
    return Counter((piece.group, piece.host) for piece in pieces if piece.group is not None)
