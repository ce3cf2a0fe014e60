"""How renting goes for one entry of the inventory."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchfleet.domain.rent import RentEntry


@dataclass
class EntryState:
    """What one run knows of an entry."""

    entry: RentEntry
    failures: list[str] = field(default_factory=list)  # in a row
    waits_for: str = ""  # why nothing was rented last time; "" if something was
    awaited: str | None = None  # why the runner waits, as last posted; "" if it does not
    next_offer: float = 0.0  # when to look at offers again, by the monotonic clock
    refused: str = ""  # why this run rents no more machine for it; "" while it may
