"""The budget of a campaign: what it may cost before no further cell begins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .usage import Usage


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An amount of one currency, and what was spent of it."""

    amount: float
    currency: str  # as its user wrote it
    spent: float = 0.0

    def after(self, usage: Usage) -> Budget:
        """The budget once an attempt used this up; costs in other currencies do not count."""
        if usage.cost is None or usage.currency != self.currency:
            return self
        return replace(self, spent=self.spent + usage.cost)

    @property
    def problem(self) -> str:
        """Why no further cell may begin; ``""`` if one may."""
        if self.spent < self.amount:
            return ""
        return (
            f"the budget of {self.amount:g} {self.currency} is spent ({self.spent:.2f} "
            f"{self.currency}); raise 'budget' and run again"
        )
