"""What a run asks for of rented machines, and what it found out about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.domain.budget import Spending
from benchfleet.domain.rent import ProviderAccess, RentEntry
from benchfleet.domain.rental import Rental
from benchfleet.ledger.base import Ledger
from benchfleet.providers.base import GpuOffer

Offers = Callable[[RentEntry], Sequence[GpuOffer]]
# Machines by entry, of a ledger, what is offered, the clock, and what is left of the budget.
Replan = Callable[[Ledger, Offers, float, int | None], Mapping[str, int]]


@dataclass(frozen=True, kw_only=True)
class RentRequest:
    """Which machines a run may rent."""

    entries: tuple[RentEntry, ...]
    providers: tuple[ProviderAccess, ...]
    folder: Path  # keeps the SSH key and the keys of hosts
    inventory: str = ""  # the file that names all of this; absolute
    owner: str = ""  # names the run for people
    process: Mapping[str, Any] = field(default_factory=dict)  # of the run
    is_owner_dead: Callable[[Rental], bool | None] = lambda rental: None  # None: cannot be seen
    budget: int | None = None  # millionths of `currency`, for all that the ledger's cells cost
    currency: str = "USD"
    tell: Callable[[str], None] = lambda text: None  # prints a line while the end is waited for
    replan: Replan | None = None  # how many machines are needed now; it may only raise numbers
    spending: Spending = field(default_factory=Spending)  # shared with the runner
    return_limit: float = 600.0  # seconds for the proof that all are gone
    remaining: list[str] = field(default_factory=list)  # after the run: what may still cost money

    @property
    def budget_remaining(self) -> int | None:
        """What is left of the budget; None without one."""
        return None if self.budget is None else self.budget - round(self.spending.total * 1e6)
