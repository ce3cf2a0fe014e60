"""Which machine runs which cells and when: what comes of sharing a campaign out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchfleet.domain.cell import Cell
from benchfleet.planner.solver.problem import Piece


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell on a machine, and when the plan has it run there."""

    cell: Cell  # in the form that is run there
    declared: Cell  # as the campaign has it; the same where it is run in full
    host: str
    slots: tuple[int, ...]
    begin: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The whole plan."""

    cells: Sequence[PlannedCell]
    setups: Sequence[Piece]  # loading, with the time of the plan
    unplaceable: Mapping[str, str]  # cells, by id, that fit no machine, each with the reason
    done: int
    running: Sequence[PlannedCell]  # where they run already, which the plan leaves to them
    failed: int  # of those that are given: they wait for `retry`
    slots: Mapping[str, int]  # by machine
    makespan: float
    bound: float
    phases: Mapping[str, tuple[float, float]]  # when each begins and ends; "" without phases
    times: Mapping[str, int]  # how many cells' times are known by what
    by: str  # what found it
    notes: Sequence[str] = ()

    @property
    def is_usable(self) -> bool:
        """Whether machines can work by it: some cells fit, or none is left."""
        return bool(self.cells or self.running or not self.unplaceable)

    @property
    def gap(self) -> float:
        return self.makespan / self.bound - 1 if self.bound else 0.0

    @property
    def sequential(self) -> float:
        """Seconds of all that is done, one after the other, each where the plan has it."""
        return sum(g.end - g.begin for g in self.cells) + sum(p.end - p.begin for p in self.setups)
