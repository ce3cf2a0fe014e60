"""Chooses offers: the cheapest on a machine that has not failed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchfleet.domain.humanize import counted
from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import TAIL_S, Account, Rental, RentalHistory
from benchfleet.providers.base import GpuOffer, InstanceSpec, Provider, ProviderError, Want
from benchfleet.rentals.memory import Machine, bad_machines, confidence
from benchfleet.rentals.request import RentRequest
from benchfleet.rentals.stage_limits import stage_limits
from benchfleet.rentals.stream import random_id

_CELL_S = 600.0  # of a cell whose time nobody knows
_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class MarketOffer:
    """An offer, and who makes it."""

    account: Account
    provider: Provider
    offer: GpuOffer

    @property
    def machine(self) -> Machine:
        """What remembers failures."""
        return self.account.provider, self.offer.machine


@dataclass
class Market:
    """The offers of all accounts."""

    accounts: Mapping[Account, Provider]
    public_key: Path
    pause_s: float = 120.0  # between two looks, where nothing was offered
    problem: str = ""  # why an account was not asked last time
    _set_aside: str = ""  # which offers `ranked` left out last time, since their machines failed
    _avoided: set[Machine] = field(default_factory=set)
    _refusals: dict[Account, ProviderError] = field(default_factory=dict)

    def avoid(self, rental: Rental) -> None:
        """Rent this machine no more in this run."""
        if rental.machine:  # else its provider does not say
            self._avoided.add((rental.account.provider, rental.machine))

    def note(self, rental: Rental, error: ProviderError) -> None:
        """Take in that a request to rent failed."""
        self.avoid(rental)
        if error.lasts:
            self.refuse(rental.account, error)

    def refuse(self, account: Account, error: ProviderError) -> None:
        """Rent nothing more from this account in this run."""
        self._refusals.setdefault(account, error)

    def best(self, entry: RentEntry, history: RentalHistory, now: float) -> MarketOffer | None:
        """The cheapest offer for an entry; None where there is none now."""
        return next(iter(self.ranked(entry, history, now)), None)

    def ranked(self, entry: RentEntry, history: RentalHistory, now: float) -> list[MarketOffer]:
        """The offers for an entry, cheapest first.

        Machines that failed lately are left out. An offer at a place where requests failed counts
        as dearer than it is. `now`: seconds since the epoch.
        """
        self.problem = ""
        bad = bad_machines(history, now)
        suited = self._offered(entry, want_of(entry))
        aside = [one for one in suited if one.machine in bad or one.machine in self._avoided]
        self._set_aside = self._why_aside([one.machine for one in aside], bad)
        matches = [one for one in suited if one not in aside]

        def rank(one: MarketOffer) -> tuple[float, str]:
            trust = confidence(history, one.account.provider, one.offer.region)
            return one.offer.hourly * max(1.0, 0.5 / trust), one.offer.id

        return sorted(matches, key=rank)

    def why_none(self, entry: RentEntry) -> str:
        """Why `best` found nothing."""
        for account, provider in self.accounts.items():
            if account.provider in entry.providers and not _has_one_currency(provider, entry):
                limit = entry.max_price.currency if entry.max_price else ""
                return (
                    f"max_price is in {limit}, and {account.provider} rents in "
                    f"{provider.currency}; use one currency"
                )
        if self.problem or self._set_aside:
            return self.problem or self._set_aside
        dearer = self._offered(entry, replace(want_of(entry), max_price=None))
        cheapest = min((one.offer for one in dearer), key=lambda offer: offer.hourly, default=None)
        price = f"{cheapest.hourly / _MILLION:.3f} {cheapest.currency}/h" if cheapest else ""
        why = f"; the cheapest costs {price}, more than max_price" if cheapest else ""
        return f"nobody offers {entry.gpu} on these terms now{why}"

    def _offered(self, entry: RentEntry, want: Want) -> list[MarketOffer]:
        return [
            MarketOffer(account=account, provider=provider, offer=offer)
            for account, provider in self.accounts.items()
            if account not in self._refusals and _suits(account, provider, entry)
            for offer in self._offers(account, provider, want)
        ]

    def _why_aside(self, machines: Sequence[Machine], bad: Mapping[Machine, float]) -> str:
        if not machines:
            return ""
        ends = [bad[one] for one in machines if one in bad and one not in self._avoided]
        until = f"until {time.strftime('%b %d %H:%M', time.localtime(min(ends)))}" if ends else ""
        offers = counted(len(machines), "offer", "are")
        return f"{offers} set aside {until or 'in this run'}, since machines of theirs failed"

    def refusal(self, entry: RentEntry) -> ProviderError | None:
        """Why no account rents out anything for the entry any more; None while one may."""
        suited = [one for one, at in self.accounts.items() if _suits(one, at, entry)]
        refusals = [self._refusals.get(account) for account in suited]
        return refusals[0] if refusals and all(refusals) else None

    def _offers(self, account: Account, provider: Provider, want: Want) -> Sequence[GpuOffer]:
        try:
            return provider.offers(want)
        except ProviderError as error:
            self.problem = str(error)
            if error.lasts:
                self.refuse(account, error)
            return ()

    def rental(
        self, chosen: MarketOffer, entry: RentEntry, request: RentRequest, *, work_s: float = 0.0
    ) -> Rental:
        """A rental of an offer, not recorded yet. `work_s` has the seconds of the shortest cell for
        it, which are reserved with those of its stages and of its return; 0 where nobody knows."""
        offer, provider = chosen.offer, chosen.provider
        limits = stage_limits(entry.image, boots_system=provider.boots_system)
        reserved_s = limits.total + (work_s or _CELL_S) + TAIL_S
        return Rental(
            id=random_id(),
            account=chosen.account,
            owner=request.owner,
            process=request.process,
            inventory=request.inventory,
            entry=entry.name,
            offer=offer.id,
            machine=offer.machine,
            gpu=offer.gpu,
            region=offer.region,
            hourly=offer.hourly,
            transfer=offer.transfer_price,
            currency=offer.currency,
            billing=provider.billing,
            vram=offer.vram,
            reserve=provider.billing.cost(offer.hourly, reserved_s),
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


def _suits(account: Account, provider: Provider, entry: RentEntry) -> bool:
    safe = provider.dead_man == "destroys" or not entry.needs_dead_man
    return account.provider in entry.providers and safe and _has_one_currency(provider, entry)


def _has_one_currency(provider: Provider, entry: RentEntry) -> bool:
    """Whether the entry's limit can be compared with the provider's prices."""
    limit = entry.max_price.currency if entry.max_price else ""
    return limit in ("", provider.currency)


def offer_of(rental: Rental, gpus: int) -> GpuOffer:
    """The offer that was rented, of a machine with so many GPUs."""
    return GpuOffer(
        provider=rental.account.provider,
        id=rental.offer,
        machine=rental.machine,
        gpu=rental.gpu,
        count=gpus,
        vram=rental.vram,
        price=rental.hourly,
        currency=rental.currency,
        region=rental.region,
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
