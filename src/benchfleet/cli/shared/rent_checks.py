"""What must be right before anything is rented: credentials, credit, and offers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchfleet.campaign.inventory import known_hosts_of, load_inventory
from benchfleet.domain.humanize import counted
from benchfleet.domain.rental import RentalHistory
from benchfleet.errors import BenchfleetError
from benchfleet.machines.checkup import Check
from benchfleet.providers.base import Provider
from benchfleet.rentals.accounts import open_provider
from benchfleet.rentals.market import Market
from benchfleet.rentals.prepare import campaign_key

_MILLION = 1_000_000


def rent_checks(machines: Path) -> Iterator[Check]:
    """Ask each provider of the inventory who we are, what is left, and what it offers. Nothing of
    it costs money."""
    inventory = load_inventory(machines)
    providers: dict[str, Provider] = {}
    for access in inventory.providers:
        what = f"provider {access.name}"
        try:
            provider = open_provider(access)
            account = provider.account()
            credit = provider.balance()
        except BenchfleetError as error:
            fix = f"correct 'providers: {access.name}' in {machines}, or the key that it names"
            yield Check(what=what, level="problem", finding=str(error), fix=fix)
            continue
        providers[access.name] = provider
        yield Check(what=what, level="ok", finding=f"account {account.id}{_credit(provider)}")
        if provider.dead_man != "destroys":
            finding = "its machines cannot destroy themselves when nobody is left"
            fix = "use prepaid credit without automatic top-up as the last limit"
            yield Check(what=what, level="warning", finding=finding, fix=fix)
        if credit is not None and credit <= 0:
            yield Check(
                what=what, level="problem", finding="no credit is left", fix="add credit there"
            )
    if inventory.rent:
        key = campaign_key(known_hosts_of(machines).parent)
        yield Check(what="SSH key of rented machines", level="ok", finding=f"{key}.pub")
    if not providers:
        return
    accounts = {provider.account(): provider for provider in providers.values()}
    market = Market(accounts=accounts, public_key=machines)
    for entry in inventory.rent:
        offers = market.ranked(entry, RentalHistory(), 0.0)
        what = f"rent {entry.name}"
        if offers:
            cheapest = offers[0].offer
            price = f"from {cheapest.hourly / _MILLION:.3f} {cheapest.currency}/h"
            count = counted(len(offers), "offer")
            finding = f"{count} of {cheapest.gpu}, {price} at {cheapest.provider}"
            yield Check(what=what, level="ok", finding=finding)
        else:
            fix = "raise max_price, correct the name of the GPU, or name other providers"
            yield Check(what=what, level="warning", finding=market.why_none(entry), fix=fix)


def _credit(provider: Provider) -> str:
    credit = provider.balance()
    return "" if credit is None else f", {credit / _MILLION:.2f} {provider.currency} of credit"
