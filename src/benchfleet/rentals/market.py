"""Chooses offers: the cheapest on a machine that has not failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import Account, Rental
from benchfleet.providers.base import GpuOffer, InstanceSpec, Provider, ProviderError, Want
from benchfleet.rentals.request import RentRequest
from benchfleet.rentals.stream import random_id

_RESERVED_S = 3600.0  # for each machine: its preparation, and an hour's part of its work
_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class MarketOffer:
    """An offer, and who makes it."""

    account: Account
    provider: Provider
    offer: GpuOffer


@dataclass
class Market:
    """The offers of all accounts."""

    accounts: Mapping[Account, Provider]
    public_key: Path
    pause_s: float = 120.0  # between two looks, where nothing was offered
    problem: str = ""  # why an account was not asked last time
    _avoided: set[tuple[str, str]] = field(default_factory=set)  # provider and machine

    def avoid(self, rental: Rental) -> None:
        """Rent this machine no more in this run."""
        self._avoided.add((rental.account.provider, rental.machine))

    def best(self, entry: RentEntry) -> MarketOffer | None:
        """The cheapest offer for an entry; None where there is none now."""
        self.problem = ""
        matches = [
            MarketOffer(account=account, provider=provider, offer=offer)
            for account, provider in self.accounts.items()
            if account.provider in entry.providers
            and (provider.dead_man == "destroys" or not entry.needs_dead_man)
            for offer in self._offers(provider, want_of(entry))
            if (account.provider, offer.machine) not in self._avoided
        ]
        return min(matches, key=lambda one: (one.offer.hourly, one.offer.id), default=None)

    def why_none(self, entry: RentEntry) -> str:
        """Why `best` found nothing."""
        return self.problem or f"nobody offers {entry.gpu} on these terms now"

    def _offers(self, provider: Provider, want: Want) -> Sequence[GpuOffer]:
        try:
            return provider.offers(want)
        except ProviderError as error:
            self.problem = str(error)
            return ()

    def rental(self, chosen: MarketOffer, entry: RentEntry, request: RentRequest) -> Rental:
        """A rental of an offer, not recorded yet."""
        offer = chosen.offer
        return Rental(
            id=random_id(),
            account=chosen.account,
            owner=request.owner,
            process=request.process,
            entry=entry.name,
            offer=offer.id,
            machine=offer.machine,
            gpu=offer.gpu,
            region=offer.region,
            hourly=offer.hourly,
            currency=offer.currency,
            billing=chosen.provider.billing,
            vram=offer.vram,
            reserve=chosen.provider.billing.cost(offer.hourly, _RESERVED_S),
        )

    def spec(self, entry: RentEntry) -> InstanceSpec:
        """What is created for an entry."""
        return InstanceSpec(
            label="",
            image=entry.image,
            disk=entry.disk,
            public_key=self.public_key.read_text().strip(),
            has_timer=entry.needs_dead_man,
            limit_price=want_of(entry).max_price,
        )


def want_of(entry: RentEntry) -> Want:
    """What an entry looks for."""
    price = entry.max_price
    return Want(
        gpu=entry.gpu,
        count=entry.gpus,
        disk=entry.disk,
        region=entry.region,
        max_price=None if price is None else round(price.amount * _MILLION),
    )
