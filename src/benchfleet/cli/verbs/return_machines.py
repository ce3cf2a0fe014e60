"""``benchfleet return``: return rented machines by name, also those that a run uses."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchfleet.campaign.inventory import load_inventory
from benchfleet.cli.shared import options
from benchfleet.cli.shared.rent import return_limit
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.domain.humanize import counted
from benchfleet.domain.rental import Rental
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.hints import hint
from benchfleet.ledger.base import since_boot
from benchfleet.rentals.accounts import open_accounts
from benchfleet.rentals.reconcile import Reconciler
from benchfleet.rentals.renting import Limits, Renting
from benchfleet.rentals.stream import RentalStream

_MILLION = 1_000_000
_PAUSE_S = 10.0  # between two lists


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet return study.yaml r4090-abcdefgh --machines machines.yaml"
    options.campaign(parser, example=example)
    parser.add_argument(
        "names", metavar="NAME", nargs="+", help="of a machine, as status and manifest show it"
    )
    parser.add_argument(
        "--machines", metavar="FILE", type=Path, required=True, help="names the providers"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Ask for their end, and wait until lists of the providers prove it. A run that uses one goes
    on without it."""
    study, _ = options.opened(arguments)
    accounts = open_accounts(load_inventory(arguments.machines).providers)
    ledger = study.open_existing_ledger(writes=True)
    if ledger is None:
        raise BenchfleetError(f"{study.campaign.name} has no ledger yet, so nothing was rented")
    with closing(ledger):
        stream = RentalStream(ledger, since_boot)
        reconciler = Reconciler(stream=stream, providers=accounts, clock=since_boot)
        named = _named(arguments.names, reconciler.turn().open)
        if foreign := [one.host for one in named if one.account not in accounts]:
            names = ", ".join(foreign)
            raise wrong_option("--machines", f"names no account of {names}; use its own inventory")
        what = f"return {', '.join(one.host for one in named)}"
        if not arguments.yes and not confirm(f"{what}?", otherwise=f"this would {what}; add --yes"):
            print("nothing was returned")
            return 1
        renting = Renting(stream=stream, limits=Limits(), clock=since_boot, now=time.time)
        for one in named:
            renting.give_back(one, "returned by a user")
        ids = {one.id for one in named}
        end = since_boot() + return_limit()
        while remaining := [one for one in reconciler.turn().open if one.id in ids]:
            if since_boot() >= end:
                break
            if not arguments.json:
                say(f"waiting for the end of {counted(len(remaining), 'machine')} …", flush=True)
            time.sleep(_PAUSE_S)
        _report(arguments, [stream.history.rentals[one.id] for one in named])
    return 1 if remaining else 0


def _named(names: Sequence[str], rentals: Sequence[Rental]) -> list[Rental]:
    """The open rentals of these names, or ids. Raises CampaignError for any other."""
    by_name = {one.host: one for one in rentals} | {one.id: one for one in rentals}
    hosts = [one.host for one in rentals]
    for name in names:
        if name not in by_name:
            message = f"no machine of that name is rented; {hint(name, hosts)}"
            raise wrong_option(name, message if hosts else "nothing is rented now")
    return list({by_name[name].id: by_name[name] for name in names}.values())


def _report(arguments: argparse.Namespace, rentals: Sequence[Rental]) -> None:
    if arguments.json:
        print_json(
            {
                "rentals": [
                    {"name": one.host, "state": one.state, "cost": one.cost / _MILLION}
                    for one in rentals
                ]
            }
        )
        return
    for one in rentals:
        say(f"  {one.state:<9} {one.host}  {one.cost / _MILLION:.4f} {one.currency}")
