"""``benchfleet rent``: rent one machine by hand, keep it until Ctrl-C, and return it."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from benchfleet.campaign.inventory import load_inventory
from benchfleet.cli.shared import options
from benchfleet.cli.shared.foreground_run import handle_signals
from benchfleet.cli.shared.rent import budget_of, request_of, show_remaining
from benchfleet.cli.text.output import confirm, say
from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import Rental, RentalHistory
from benchfleet.domain.resource import Need
from benchfleet.engines.base import HostAwaited, HostLost, HostReady
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.hints import hint
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.spending import read_rentals
from benchfleet.planner.rent.build import split_entries
from benchfleet.rentals.accounts import open_accounts
from benchfleet.rentals.engine import RentedEngine
from benchfleet.rentals.market import Market, MarketOffer
from benchfleet.rentals.prepare import campaign_key
from benchfleet.rentals.request import RentRequest
from benchfleet.runner.events import EventQueue, Interrupted
from benchfleet.wiring import count_spending

_MILLION = 1_000_000
_LOOK_S = 3600.0


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet rent study.yaml r4090 --machines machines.yaml"
    options.campaign(parser, example=example)
    parser.add_argument("name", metavar="ENTRY", help="of 'rent' in the inventory")
    parser.add_argument(
        "--machines", metavar="FILE", type=Path, required=True, help="names the providers"
    )
    parser.add_argument(
        "--budget", metavar="MONEY", default="", help="for all that this campaign costs"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(rent=True, deadline="")  # as of run


def main(arguments: argparse.Namespace) -> int:
    """Rent a machine of the entry, prepare it, say how to log in, and keep it until Ctrl-C."""
    study, cells = options.opened(arguments)
    inventory = load_inventory(arguments.machines)
    entry = _named(arguments.name, inventory.rent)
    budget = budget_of(arguments, study.campaign.budget)
    study = replace(study, campaign=replace(study.campaign, budget=budget))
    request = request_of(arguments, inventory, budget)
    count_spending(study, request.spending)
    accounts = open_accounts(request.providers)
    market = Market(accounts=accounts, public_key=request.folder)
    with closing(study.open_ledger()) as ledger:
        history = read_rentals(ledger)
        chosen = _cheapest(split_entries([entry], cells), market, history)
        if chosen is None:
            raise BenchfleetError(market.why_none(entry))
        entry, best = chosen
        what = f"rent {_described(best)} until Ctrl-C"
        if not arguments.yes and not confirm(f"{what}?", otherwise=f"this would {what}; add --yes"):
            print("nothing was rented")
            return 1
        by_hand = replace(entry, planned=1, idle=math.inf)
        request = replace(request, entries=(by_hand,))
        inbox, serving = EventQueue(), threading.Event()
        serving.set()  # Ctrl-C ends it in good order from the start
        engine = RentedEngine(inbox.post, request, ledger, accounts)
        with handle_signals(inbox, serving):
            engine.expect({Need(): by_hand.count})  # whatever others wait for
            problem = _keep(by_hand, inbox, engine, ledger, request)
            engine.await_end(lambda: isinstance(inbox.take(0.02), Interrupted))
    if problem:
        say(f"benchfleet: {problem}", to=sys.stderr)
    return max(show_remaining(arguments, request), 1 if problem else 0)


def _named(name: str, entries: tuple[RentEntry, ...]) -> RentEntry:
    """The entry of this name. Raises CampaignError for any other."""
    by_name = {entry.name: entry for entry in entries}
    if name not in by_name:
        raise wrong_option(name, f"no entry of 'rent' in --machines; {hint(name, by_name)}")
    return by_name[name]


def _cheapest(
    entries: Sequence[RentEntry], market: Market, history: RentalHistory
) -> tuple[RentEntry, MarketOffer] | None:
    """The best offer for any of them; None if there is none."""
    offers = [(one, market.best(one, history, time.time())) for one in entries]
    offered = [(one, best) for one, best in offers if best is not None]
    return min(offered, key=lambda pair: pair[1].offer.hourly, default=None)


def _described(best: MarketOffer) -> str:
    price = f"{best.offer.hourly / _MILLION:.3f} {best.offer.currency}/h"
    return f"{best.offer.gpu} at {best.offer.provider} for {price}"


def _keep(
    entry: RentEntry, inbox: EventQueue, engine: RentedEngine, ledger: Ledger, request: RentRequest
) -> str:
    """Wait for the machine, then for Ctrl-C; what went wrong, or ""."""
    host = ""
    while True:
        event = inbox.take(_LOOK_S)
        if isinstance(event, Interrupted):
            return ""
        if isinstance(event, HostAwaited) and not host:
            say(f"  {event.reason}", flush=True)
        elif isinstance(event, HostReady):
            host = event.host
            engine.expect({})  # it is not rented again
            history = read_rentals(ledger)
            rental = history.rentals[host.rpartition("-")[2]]
            say(f"{host} is ready; Ctrl-C returns it. Log in with:", flush=True)
            say(f"  {_login(rental, entry, request)}", flush=True)
        elif isinstance(event, HostLost) and event.host == host and event.removed:
            return f"{host} is lost: {event.reason}"
        elif isinstance(event, HostLost) and event.hopeless and event.host == entry.name:
            return event.reason
        elif isinstance(event, HostLost) and event.host != entry.name:
            say(f"  {event.host}: {event.reason}", flush=True)


def _login(rental: Rental, entry: RentEntry, request: RentRequest) -> str:
    """The command that opens a shell there."""
    known_hosts = request.folder / "known_hosts"
    chosen = [f"HostKeyAlias={rental.host}", f"UserKnownHostsFile={known_hosts}"]
    words = ["ssh", "-i", str(campaign_key(request.folder)), "-p", str(rental.port)]
    words += [word for one in chosen for word in ("-o", one)]
    return shlex.join([*words, f"{entry.user or rental.user}@{rental.address}"])
