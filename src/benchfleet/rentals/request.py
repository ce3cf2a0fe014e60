"""What a run asks for of rented machines, and what it found out about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchfleet.domain.rent import ProviderAccess, RentEntry
from benchfleet.domain.rental import Rental


@dataclass(frozen=True, kw_only=True)
class RentRequest:
    """Which machines a run may rent."""

    entries: tuple[RentEntry, ...]
    providers: tuple[ProviderAccess, ...]
    folder: Path  # keeps the SSH key and the keys of hosts
    owner: str = ""  # names the run for people
    process: Mapping[str, Any] = field(default_factory=dict)  # of the run
    is_owner_dead: Callable[[Rental], bool] = lambda rental: False
    budget: int | None = None  # millionths of `currency`, for all rentals of the ledger
    currency: str = "USD"
    tell: Callable[[str], None] = lambda text: None  # prints a line while the end is waited for
    remaining: list[str] = field(default_factory=list)  # after the run: what may still cost money
