"""``--rent``: which machines a run may rent, and the question before it does."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence

from benchfleet.campaign.inventory import Inventory, known_hosts_of
from benchfleet.cli.text.output import confirm, say
from benchfleet.domain import units
from benchfleet.domain.budget import Budget
from benchfleet.domain.humanize import counted
from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import Rental
from benchfleet.errors import CampaignError, Mistake, wrong_option
from benchfleet.rentals.market import Market
from benchfleet.rentals.request import RentRequest
from benchfleet.runs.process import Process

_MILLION = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """What the options are."""
    parser.add_argument(
        "--rent", action="store_true", help="rent the machines under 'rent' of --machines"
    )
    parser.add_argument(
        "--rent-budget",
        metavar="MONEY",
        default="",
        help="for all rentals of this ledger, such as '20 USD' (the campaign's budget)",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="do not ask before anything is rented (service: replaced)",
    )


def rent_request(
    arguments: argparse.Namespace, inventory: Inventory, budget: Budget | None
) -> RentRequest | None:
    """What the run may rent; None if nothing. Raises CampaignError."""
    if not arguments.rent:
        if arguments.rent_budget:
            raise wrong_option("--rent-budget", "limits what --rent rents; add --rent")
        return None
    if arguments.machines is None:
        raise wrong_option("--rent", "needs an inventory with 'rent'; name it with --machines")
    if not inventory.rent:
        message = "names no machine to rent; write {name: …, gpu: …} under 'rent:'"
        raise CampaignError(str(arguments.machines), [Mistake(key="rent", message=message)])
    amount, currency = _budget(arguments, budget)
    process = Process.own()
    return RentRequest(
        entries=inventory.rent,
        providers=inventory.providers,
        folder=known_hosts_of(arguments.machines).parent,
        owner=f"{platform.node()}, pid {process.pid}",
        process=vars(process),
        is_owner_dead=_is_owner_dead,
        budget=amount,
        currency=currency,
        tell=lambda text: say(text, to=sys.stderr, flush=True),
    )


def _budget(arguments: argparse.Namespace, budget: Budget | None) -> tuple[int | None, str]:
    if not arguments.rent_budget:
        if budget is None:
            return None, "USD"
        return round((budget.amount - budget.spent) * _MILLION), budget.currency
    try:
        amount, currency = units.money(arguments.rent_budget)
    except ValueError as error:
        raise wrong_option("--rent-budget", str(error)) from None
    return round(amount * _MILLION), currency


def _is_owner_dead(rental: Rental) -> bool:
    try:
        return Process.read(rental.process).lives() is False
    except (LookupError, TypeError, ValueError):
        return False


def agree(arguments: argparse.Namespace, request: RentRequest) -> bool:
    """Show what would be rented and ask, unless --yes is there. Raises ProviderError."""
    if arguments.yes:
        return True
    from benchfleet.rentals.accounts import open_accounts

    market = Market(accounts=open_accounts(request.providers), public_key=request.folder)
    stream = sys.stderr if arguments.json else sys.stdout
    for entry in request.entries:
        say(f"  {entry.name}: {_terms(entry, market)}", to=stream)
    limit = (
        "no budget limits it"
        if request.budget is None
        else f"at most {request.budget / _MILLION:.2f} {request.currency} in all"
    )
    most = sum(entry.count for entry in request.entries)
    what = f"rent up to {counted(most, 'machine')} ({limit})"
    return confirm(f"{what}?", otherwise=f"this would {what}; add --yes")


def _terms(entry: RentEntry, market: Market) -> str:
    cheapest = market.best(entry)
    if cheapest is None:
        return market.why_none(entry)
    offer = cheapest.offer
    price = f"{offer.hourly / _MILLION:.3f} {offer.currency}/h"
    return f"up to {entry.count} × {offer.gpu}, now {price} at {offer.provider} ({offer.region})"


def show_remaining(request: RentRequest | None) -> int:
    """Name what may still cost money; the exit code for it."""
    if request is None or not request.remaining:
        return 0
    lines: Sequence[str] = request.remaining
    say("benchfleet: rented machines may still cost money:", *lines, to=sys.stderr)
    say("return them with: benchfleet sweep-orphans", to=sys.stderr)
    return 1
