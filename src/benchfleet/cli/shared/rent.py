"""``--rent``: which machines a run may rent, and what may still cost money after it."""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchfleet.cli.shared import next_command
from benchfleet.cli.text.output import say
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain import units
from benchfleet.domain.budget import Budget
from benchfleet.domain.rental import Rental, RentalHistory
from benchfleet.environment import return_seconds
from benchfleet.errors import BenchfleetError, CampaignError, Mistake, wrong_option
from benchfleet.ledger.spending import read_rentals
from benchfleet.runs.process import Process, has_died
from benchfleet.study import Study

if TYPE_CHECKING:
    from benchfleet.campaign.inventory import Inventory
    from benchfleet.rentals.request import RentRequest

_MILLION = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """What the options are."""
    parser.add_argument(
        "--rent", action="store_true", help="rent the machines under 'rent' of --machines"
    )
    parser.add_argument(
        "--budget",
        metavar="MONEY",
        default="",
        help="for all that this campaign costs, such as '20 USD' (the campaign's budget)",
    )
    parser.add_argument(
        "--deadline",
        metavar="TIME",
        type=_deadline,
        help="rent the cheapest machines that end the run in this time, such as 6h",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="do not ask before anything is rented (service: replaced)",
    )


def _deadline(text: str) -> str:
    try:
        units.duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def budget_of(arguments: argparse.Namespace, declared: Budget | None) -> Budget | None:
    """The budget of a run: of the command line, else the campaign's. Raises CampaignError."""
    if arguments.deadline and not arguments.rent:
        raise wrong_option("--deadline", "chooses what --rent rents; add --rent")
    if not arguments.budget:
        return declared
    try:
        amount, currency = units.money(arguments.budget)
    except ValueError as error:
        raise wrong_option("--budget", str(error)) from None
    return Budget(amount=amount, currency=currency)


def rent_request(
    arguments: argparse.Namespace, inventory: Inventory, budget: Budget | None
) -> RentRequest | None:
    """What the run may rent; None if nothing. Raises CampaignError."""
    return request_of(arguments, inventory, budget) if arguments.rent else None


def request_of(
    arguments: argparse.Namespace, inventory: Inventory, budget: Budget | None
) -> RentRequest:
    """What may be rented of an inventory. Raises CampaignError."""
    if arguments.machines is None:
        raise wrong_option("--rent", "needs an inventory with 'rent'; name it with --machines")
    if not inventory.rent:
        message = "names no machine to rent; write {name: …, gpu: …} under 'rent:'"
        raise CampaignError(str(arguments.machines), [Mistake(key="rent", message=message)])
    from benchfleet.campaign.inventory import known_hosts_of  # and the providers: a run that rents
    from benchfleet.rentals.accounts import hide_keys
    from benchfleet.rentals.request import RentRequest

    hide_keys(inventory.providers)  # first: git may be started before they are read
    process = Process.own()
    return RentRequest(
        entries=inventory.rent,
        providers=inventory.providers,
        folder=known_hosts_of(arguments.machines).parent,
        inventory=os.path.abspath(arguments.machines),
        owner=f"{platform.node()}, pid {process.pid}",
        process=vars(process),
        is_owner_dead=is_dead_here,
        budget=None if budget is None else round(budget.amount * _MILLION),
        currency=budget.currency if budget else "USD",
        tell=lambda text: say(text, to=sys.stderr, flush=True),
        return_limit=return_limit(),
    )


def return_limit() -> float:
    """How many seconds to wait for the proof that machines are gone. Raises BenchfleetError for an
    invalid setting."""
    try:
        return return_seconds(os.environ)
    except ValueError as error:
        raise BenchfleetError(str(error)) from None


def is_dead_here(rental: Rental) -> bool | None:
    """Whether the run that has a rental died; None if this machine cannot tell."""
    return has_died(rental.process)


def show_orphans(arguments: argparse.Namespace, study: Study) -> None:
    """Name the machines of runs that died here, with the commands that return them."""
    history = study.query(read_rentals, default=RentalHistory())
    orphans = [one for one in history.open if is_dead_here(one)]
    if not orphans:
        return
    named = (f"  {rental_text(one)}" for one in orphans)
    commands = return_commands(orphans, partial(next_command.same_choice, arguments))
    head = "warning: this run does not return the rented machines of a run that died:"
    say(head, *named, *commands, to=sys.stderr)


def rental_text(rental: Rental) -> str:
    """``r4090-abcdefgh  (ready; vast 17; 0.300 USD/h)``"""
    price = f"{rental.hourly / _MILLION:.3f} {rental.currency}/h"
    where = f"{rental.account.provider} {rental.instance}".strip()
    died = "; its run died" if is_dead_here(rental) else ""
    return f"{rental.host}  ({rental.state}; {where}; {price}{died})"


def return_commands(rentals: Sequence[Rental], command: Callable[[str], str]) -> Iterator[str]:
    """The commands that return these machines: one for each inventory. `command` gives that of a
    verb on their campaign."""
    for inventory in dict.fromkeys(one.inventory for one in rentals):
        names = " ".join(one.host for one in rentals if one.inventory == inventory)
        file = shlex.quote(str(display_path(Path(inventory)))) if inventory else "MACHINES"
        yield f"return them with: {command('return')} {names} --machines {file}"


def show_remaining(arguments: argparse.Namespace, request: RentRequest | None) -> int:
    """Name what may still cost money, with the command that returns it; the exit code for it."""
    if request is None or not request.remaining:
        return 0
    lines: Sequence[str] = request.remaining
    say("benchfleet: rented machines may still cost money:", *lines, to=sys.stderr)
    command = next_command.same_choice(arguments, "sweep-orphans")
    say(f"return them with: {command}", to=sys.stderr)
    return 1
