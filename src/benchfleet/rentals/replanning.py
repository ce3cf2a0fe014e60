"""Raises how many machines a run rents, once a new plan needs more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import RentalHistory
from benchfleet.ledger.base import Ledger
from benchfleet.providers.base import GpuOffer
from benchfleet.rentals.entry_state import EntryState
from benchfleet.rentals.market import MarketOffer, offer_of
from benchfleet.rentals.request import RentRequest, Replan


def raise_plans(
    request: RentRequest,
    replan: Replan,
    ledger: Ledger,
    entries: Sequence[EntryState],
    history: RentalHistory,
    ranked: Callable[[RentEntry], Sequence[MarketOffer]],
    now: float,
) -> None:
    """Plan again, and rent more machines from now on where that has more. `ranked`: the offers for
    an entry; `now`: by the clock of the plan."""

    def offers_of(entry: RentEntry) -> list[GpuOffer]:
        rented = [offer_of(one, entry.gpus) for one in history.open if one.entry == entry.name]
        return [*rented, *(one.offer for one in ranked(entry))]

    needed = replan(ledger, offers_of, now, request.budget_remaining)
    for state in entries:
        count, planned = needed.get(state.entry.name, 0), state.entry.planned
        if planned is not None and count > planned:
            state.entry = replace(state.entry, planned=count)
            request.tell(f"{state.entry.name}: {count} machines, as planned again")
