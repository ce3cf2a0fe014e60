"""The planner's problem, and a plan for it: values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

GOOD_GAP = 0.005  # of the bound: a plan this close ends the search


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a machine would run a cell of some group."""

    seconds: float  # of one cell once its model is loaded, at most as many at a time as fit
    model: str = ""  # what has to be loaded; "" for nothing
    form: int = 0  # 0: as declared; n: with the n-th variant of its model
    width: int = 1  # slots of the machine that it takes


@dataclass(frozen=True, kw_only=True)
class Group:
    """Cells that are alike to the planner: each machine takes the same time for any of them."""

    count: int
    ways: Mapping[str, Way]  # by machine; those that cannot run them are not there
    block: str = ""  # groups of one block are compared with each other: all are run in one form

    @property
    def kind(self) -> tuple[tuple[str, float, str, int, int], ...]:
        """Equal for groups whose cells are alike wherever they run."""
        return tuple(sorted((h, w.seconds, w.model, w.form, w.width) for h, w in self.ways.items()))


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is to be shared out."""

    slots: Mapping[str, int]  # by machine
    groups: tuple[Group, ...]
    loads: Mapping[tuple[str, str], float] = field(default_factory=dict)  # machine, model: seconds
    transfers: Mapping[tuple[str, str], float] = field(default_factory=dict)  # once for each

    def load(self, host: str, model: str) -> float:
        """Seconds until a slot has the model, once it lies on the machine."""
        return self.loads.get((host, model), 0.0)

    def transfer(self, host: str, model: str) -> float:
        """Seconds until the model lies on the machine."""
        return self.transfers.get((host, model), 0.0)

    @cached_property
    def setups(self) -> Mapping[str, Mapping[str, tuple[float, float]]]:
        """By machine and model: seconds to load and to bring it."""
        setups: dict[str, dict[str, tuple[float, float]]] = {host: {} for host in self.slots}
        for group in self.groups:
            for host, way in group.ways.items():
                name = way.model
                setups[host].setdefault(name, (self.load(host, name), self.transfer(host, name)))
        return setups

    @cached_property
    def blocks(self) -> Mapping[str, tuple[int, ...]]:
        """The groups of each block that has more than one form, by number."""
        numbers_of: dict[str, list[int]] = {}
        for number, group in enumerate(self.groups):
            numbers_of.setdefault(group.block or f"#{number}", []).append(number)
        return {
            name: tuple(numbers)
            for name, numbers in numbers_of.items()
            if len({way.form for n in numbers for way in self.groups[n].ways.values()}) > 1
        }

    def forms(self, block: str) -> list[int]:
        """The forms in which a whole block can be run, the best first."""
        by_group = [
            {way.form for way in self.groups[number].ways.values()} for number in self.blocks[block]
        ]
        return sorted(set.intersection(*by_group))


Counts = dict[tuple[int, str], int]  # cells of a group (by number) on a machine
Placed = Mapping[tuple[int, str, int], int]  # and in one slot of it


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What some slots of a machine do for a while."""

    host: str
    slots: tuple[int, ...]
    begin: float
    end: float
    model: str
    group: int | None = None  # None: the model is brought and loaded


def makespan(pieces: Iterable[Piece]) -> float:
    """Seconds until the last piece ends."""
    return max((piece.end for piece in pieces), default=0.0)


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A plan: how many cells of each group each machine runs, and when."""

    counts: Counts
    pieces: tuple[Piece, ...]
    makespan: float  # seconds
    bound: float  # no plan is shorter than this, by the numbers of the problem
    by: str  # what found it

    @property
    def gap(self) -> float:
        """How far at most it is from the best, as a part of the bound."""
        return self.makespan / self.bound - 1 if self.bound > 0 else 0.0
