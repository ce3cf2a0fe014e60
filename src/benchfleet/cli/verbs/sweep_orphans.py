"""``benchfleet sweep-orphans``: return rented machines that nobody uses any more."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path

from benchfleet.campaign.inventory import load_inventory
from benchfleet.cli.shared import options
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.domain.humanize import counted
from benchfleet.domain.rental import Rental
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.base import since_boot
from benchfleet.rentals.accounts import open_accounts
from benchfleet.rentals.reconcile import Reconciler
from benchfleet.rentals.renting import Limits, Renting
from benchfleet.rentals.stream import RentalStream

_MILLION = 1_000_000
_PAUSE_S = 10.0  # between two lists
_LIMIT_S = 600.0  # for the proof that all are gone


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet sweep-orphans study.yaml --machines machines.yaml")
    parser.add_argument(
        "--machines", metavar="FILE", type=Path, required=True, help="names the providers"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Return what is rented, and wait until lists of the providers prove that it is gone.

    Machines of other ledgers are listed and never destroyed.
    """
    study, _ = options.opened(arguments)
    accounts = open_accounts(load_inventory(arguments.machines).providers)
    ledger = study.open_existing_ledger()
    if ledger is None:
        raise BenchfleetError(f"{study.campaign.name} has no ledger yet, so nothing was rented")
    with closing(ledger):
        stream = RentalStream(ledger, since_boot)
        reconciler = Reconciler(stream=stream, providers=accounts, clock=since_boot)
        open_rentals = reconciler.turn().open
        foreign = [rental for rental in open_rentals if rental.account not in accounts]
        used = [rental for rental in open_rentals if rental.state in ("created", "ready")]
        if used and not arguments.yes and not _agreed(used):
            print("nothing was returned")
            return 1
        renting = Renting(stream=stream, limits=Limits(), clock=since_boot, now=time.time)
        for rental in used:
            renting.give_back(rental, "returned by a user")
        end = since_boot() + _LIMIT_S
        while (remaining := reconciler.turn().open) and since_boot() < end:
            if all(rental.account not in accounts for rental in remaining):
                break
            if not arguments.json:
                say(f"waiting for the end of {counted(len(remaining), 'rental')} …", flush=True)
            time.sleep(_PAUSE_S)
        ended = [stream.history.rentals[rental.id] for rental in open_rentals]
        _report(arguments, ended, reconciler)
    if foreign:
        say("some rentals belong to an account that this inventory does not name")
    return 1 if remaining else 0


def _agreed(rentals: list[Rental]) -> bool:
    for rental in rentals:
        price = f"{rental.hourly / _MILLION:.3f} {rental.currency}/h"
        say(f"  {rental.state:<8} {rental.id}  {rental.gpu}  {price}  {rental.owner}".rstrip())
    what = counted(len(rentals), "rented machine")
    return confirm(f"return {what}?", otherwise=f"this would return {what}; add --yes")


def _report(arguments: argparse.Namespace, rentals: list[Rental], reconciler: Reconciler) -> None:
    if arguments.json:
        rows = [{"id": r.id, "state": r.state, "cost": r.cost / _MILLION} for r in rentals]
        print_json({"rentals": rows, "others": [one.label for one in reconciler.others]})
        return
    for rental in rentals:
        cost = f"{rental.cost / _MILLION:.4f} {rental.currency}"
        say(f"  {rental.state:<9} {rental.id}  {rental.instance}  {cost}")
    for instance in reconciler.others:
        say(f"  of another ledger, not touched: {instance.label} ({instance.id})")
    if not rentals:
        print("nothing of this campaign is rented")
