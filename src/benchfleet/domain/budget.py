"""The budget of a campaign: what it may cost before no further cell begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .resource import Need
from .usage import Usage

_WARNING_SHARE = 0.8


@dataclass
class Spending:
    """What was spent in the budget's currency: by attempts on machines that are not rented, and by
    rentals, with what it takes to return those that are open.

    `shortest` has what a further machine is for: seconds of the shortest waiting cell, by what it
    needs; 0 if a cell's time is not known.
    """

    attempts: float = 0.0
    rentals: float = 0.0
    shortest: Mapping[Need, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return self.attempts + self.rentals


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An amount of one currency, and what was spent of it."""

    amount: float
    currency: str  # as its user wrote it
    spending: Spending = field(default_factory=Spending)

    def spend(self, usage: Usage) -> None:
        """Count what an attempt used up; costs in other currencies do not count."""
        if usage.cost is not None and usage.currency == self.currency:
            self.spending.attempts += usage.cost

    @property
    def remaining(self) -> float:
        """What is left of the amount; below 0 if more was spent."""
        return self.amount - self.spending.total

    @property
    def share(self) -> float:
        """The spent share of the amount; above 1 if more was spent."""
        return self.spending.total / self.amount if self.amount else 1.0

    @property
    def state(self) -> Literal["open", "nearly_spent", "spent"]:
        """Whether cells may begin: yes, yes but 80 % are spent, or no."""
        if self.problem:
            return "spent"
        return "nearly_spent" if self.share >= _WARNING_SHARE else "open"

    @property
    def limit(self) -> str:
        """``20 USD``"""
        return f"{self.amount:g} {self.currency}"

    @property
    def used(self) -> str:
        """``82 % of the budget of 20 USD is spent``"""
        return f"{int(100 * self.share)} % of the budget of {self.limit} is spent"

    @property
    def text(self) -> str:
        """Its state, as people read it."""
        if self.state == "nearly_spent":
            return f"{self.used}; no cell begins once all is"
        return self.problem or self.used

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        amounts = {"amount": self.amount, "currency": self.currency}
        return {**amounts, "spent": self.spending.total, "state": self.state}

    @property
    def problem(self) -> str:
        """Why no further cell may begin; ``""`` if one may."""
        spent = self.spending.total
        if spent < self.amount:
            return ""
        return (
            f"the budget of {self.limit} is spent ({spent:.2f} {self.currency}); raise 'budget' "
            "and run again"
        )
