"""What the planner of rented machines knows: cells that are alike, and offers to run them on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Span:
    """Seconds of something: at least, as expected, at most."""

    low: float
    expected: float
    high: float

    def at(self, end: str) -> float:
        """One of them by its name."""
        return {"low": self.low, "high": self.high}.get(end, self.expected)


@dataclass(frozen=True, kw_only=True)
class CellGroup:
    """Cells that are alike to the planner."""

    count: int
    seconds: Span  # of one cell once its model is loaded
    model: str  # that has to be loaded; "" for none
    lots: frozenset[str]  # where they can run, by name
    width: int = 1  # slots that a cell takes


@dataclass(frozen=True, kw_only=True)
class Lot:
    """Machines that are alike and can be had: of one entry of the inventory, or the user's own."""

    name: str
    count: int  # machines, at most
    prices: tuple[int, ...] = ()  # millionths an hour of offers, cheapest first; (): own machines
    dearest: int = 0  # the most that one may cost an hour, where the offers are gone
    setup: Span = Span(low=0.0, expected=0.0, high=0.0)  # until it runs cells
    slots: int = 1

    @property
    def is_rented(self) -> bool:
        return bool(self.prices)

    @property
    def most(self) -> int:
        """So many machines can be had."""
        return min(self.count, len(self.prices)) if self.is_rented else self.count

    def price(self, number: int, end: str = "expected") -> int:
        """An hour of its n-th machine."""
        if not self.is_rented:
            return 0
        return max(self.dearest, self.prices[number]) if end == "high" else self.prices[number]


@dataclass(frozen=True, kw_only=True)
class RentProblem:
    """Cells, and what they can run on."""

    groups: tuple[CellGroup, ...]
    lots: tuple[Lot, ...]
    loads: Mapping[str, Span] = field(default_factory=dict)  # by model

    @cached_property
    def by_name(self) -> Mapping[str, Lot]:
        """The lots by name."""
        return {lot.name: lot for lot in self.lots}

    def load(self, model: str, end: str = "expected") -> float:
        """Seconds until a slot has the model."""
        return self.loads[model].at(end) if model in self.loads else 0.0
