"""``benchfleet sweep-orphans``: return rented machines that nobody uses any more."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from benchfleet.campaign.inventory import load_inventory
from benchfleet.cli.shared import options
from benchfleet.cli.shared.rent import is_dead_here, return_limit
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.domain.humanize import counted
from benchfleet.domain.rent import ProviderAccess
from benchfleet.domain.rental import Account, Rental, RentalHistory
from benchfleet.errors import BenchfleetError, LedgerUnreachable
from benchfleet.ledger.base import Ledger, since_boot
from benchfleet.providers.base import Provider, ProviderAway
from benchfleet.rentals.accounts import open_accounts
from benchfleet.rentals.reconcile import Reconciler
from benchfleet.rentals.renting import Limits, Renting
from benchfleet.rentals.stream import RentalStream
from benchfleet.study import Study

_MILLION = 1_000_000
_PAUSE_S = 10.0  # between two lists
_FOREVER_PAUSE_S = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet sweep-orphans study.yaml --machines machines.yaml")
    parser.add_argument(
        "--machines", metavar="FILE", type=Path, required=True, help="names the providers"
    )
    parser.add_argument(
        "--forever",
        action="store_true",
        help="look each minute, and return only what runs that died have rented",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Return what is rented, and wait until lists of the providers prove that it is gone.

    Machines of other ledgers are listed and never destroyed.
    """
    study, _ = options.opened(arguments)
    providers = load_inventory(arguments.machines).providers
    if arguments.forever:
        _sweep_forever(study, providers)
        return 0
    accounts = open_accounts(providers)
    ledger = study.open_existing_ledger(writes=True)
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
        end = since_boot() + return_limit()
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


def _sweep_forever(study: Study, providers: Sequence[ProviderAccess]) -> None:
    """Return what dead runs have rented, and what no rental accounts for, until Ctrl-C. A ledger or
    a provider that is away is asked again."""
    reconciler: Reconciler | None = None
    ledger: Ledger | None = None
    reported: dict[str, str] = {}
    say("looking for machines of runs that died; Ctrl-C ends it", flush=True)
    while True:
        try:
            ledger = ledger or study.open_existing_ledger()
            if ledger is not None and reconciler is None:
                reconciler = _reconciler(ledger, open_accounts(providers))
            if reconciler is not None:
                _report_changes(reconciler.turn(), reported)
        except (LedgerUnreachable, ProviderAway) as error:
            say(f"waiting: {error}", flush=True)
        time.sleep(_FOREVER_PAUSE_S)


def _reconciler(ledger: Ledger, accounts: Mapping[Account, Provider]) -> Reconciler:
    stream = RentalStream(ledger, since_boot)

    def is_owner_dead(rental: Rental) -> bool:
        dead = is_dead_here(rental)
        return stream.is_silent(rental) if dead is None else dead

    return Reconciler(
        stream=stream, providers=accounts, clock=since_boot, is_owner_dead=is_owner_dead
    )


def _report_changes(history: RentalHistory, reported: dict[str, str]) -> None:
    """Print each rental that began to be returned, or was proved to be gone, since last time."""
    for rental in history.rentals.values():
        before = reported.get(rental.id, "" if rental.is_open else rental.state)
        reported[rental.id] = rental.state
        if before != rental.state and rental.state in ("returning", "ended"):
            say(f"  {rental.state:<9} {rental.id}  {rental.instance}  {rental.why}", flush=True)


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
