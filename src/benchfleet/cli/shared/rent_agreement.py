"""What a run rents: planned, shown, and agreed to before anything costs money."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchfleet.cli.text.output import confirm, say
from benchfleet.cli.text.rent_text import plan_lines
from benchfleet.domain import units
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.rent import RentEntry
from benchfleet.domain.rental import Account, RentalHistory
from benchfleet.errors import wrong_option
from benchfleet.fleet import Fleet
from benchfleet.ledger.base import since_boot
from benchfleet.ledger.spending import read_rentals
from benchfleet.planner.rent.build import Market as Offered
from benchfleet.planner.rent.build import build, planned_entries, split_entries
from benchfleet.planner.rent.choose import NoPlan, RentPlan, as_many, cheapest, quickest
from benchfleet.planner.rent.problem import RentProblem
from benchfleet.planner.rent.replan import Replanner
from benchfleet.providers.base import Provider
from benchfleet.rentals.accounts import open_accounts
from benchfleet.rentals.market import Market
from benchfleet.rentals.request import RentRequest
from benchfleet.runner.scheduler.duration_model import DurationModel
from benchfleet.study import Study

_MILLION = 1_000_000


def agree_to_rent(
    arguments: argparse.Namespace, study: Study, cells: Sequence[Cell], fleet: Fleet
) -> Fleet | None:
    """Plan what to rent, show it, and ask unless --yes is there; the fleet with what the plan
    rents, or None if the user declines. Raises ProviderError and CampaignError."""
    request = fleet.rent
    if request is None:
        return fleet
    stream = sys.stderr if arguments.json or arguments.log_json else sys.stdout
    nothing: list[CellRecord] = []
    records = study.query(lambda ledger: list(ledger.cells(with_cell=True)), default=nothing)
    done = {record.fingerprint for record in records if record.state in ("success", "skipped")}
    remaining = [cell for cell in cells if cell.fingerprint not in done]
    times = DurationModel(
        (record.cell, record.outcome) for record in records if record.cell and record.outcome
    )
    markets = _markets(study, request, remaining)
    hosts = [host.name for host in fleet.hosts]
    built = build(remaining, times, markets, pool=fleet.pool, hosts=hosts)
    currency = _currency(markets, request)
    if not built.problem.groups:
        say("nothing is rented: no cell that is left can run on what is offered", to=stream)
        for market in markets:
            if not market.offers:
                say(f"  {market.entry.name}: nobody offers {market.entry.gpu} now", to=stream)
        return replace(fleet, rent=replace(request, entries=_all(markets)))
    plan = _chosen(arguments, built.problem, request)
    say(*plan_lines(plan, markets, built, currency=currency), to=stream)
    entries = planned_entries(markets, plan.counts)
    if not entries and any(not one.offers for one in markets):
        entries = _all(markets)
    limit = (
        "no budget limits it"
        if request.budget is None
        else f"at most {request.budget / _MILLION:.2f} {request.currency} in all"
    )
    what = f"rent {counted(plan.machines, 'machine')} ({limit})"
    asks = plan.machines and not arguments.yes
    if asks and not confirm(f"{what}?", otherwise=f"this would {what}; add --yes"):
        return None
    if arguments.deadline or request.budget is not None:
        end = since_boot() + units.duration(arguments.deadline) if arguments.deadline else None
        replan = Replanner(
            cells=remaining,
            entries=_all(markets),
            end=end,
            pool=fleet.pool,
            hosts=hosts,
        )
        request = replace(request, replan=replan)
    return replace(fleet, rent=replace(request, entries=entries))


def _all(markets: Sequence[Offered]) -> tuple[RentEntry, ...]:
    return tuple(one.entry for one in markets)


def _markets(study: Study, request: RentRequest, cells: Sequence[Cell]) -> list[Offered]:
    """What is offered for each entry now, cheapest first."""
    history = study.query(
        read_rentals,
        default=RentalHistory(),
    )
    accounts = open_accounts(request.providers)
    _check_accounts(history, accounts, request)
    market = Market(accounts=accounts, public_key=request.folder)
    return [
        Offered(
            entry=entry,
            offers=tuple(one.offer for one in market.ranked(entry, history, time.time())),
        )
        for entry in split_entries(request.entries, cells)
    ]


def _check_accounts(
    history: RentalHistory, accounts: Mapping[Account, Provider], request: RentRequest
) -> None:
    """Raise CampaignError if a run that died here rented with another account: its lists alone
    prove that a machine is gone."""
    orphans = [
        one for one in history.open if one.account not in accounts and request.is_owner_dead(one)
    ]
    if orphans:
        names = ", ".join(
            f"{one.host} ({one.account.provider} {one.instance}, account {one.account.id} at "
            f"{one.account.url})"
            for one in orphans
        )
        message = (
            f"has no key of the account that rented {names}; use that key and address, or return "
            "it there"
        )
        raise wrong_option("--machines", message)


def _currency(markets: Sequence[Offered], request: RentRequest) -> str:
    """The one currency of all offers and the budget. Raises CampaignError for several."""
    currencies = {offer.currency for market in markets for offer in market.offers}
    currencies |= {request.currency} if request.budget is not None else set()
    if len(currencies) > 1:
        names = " and ".join(sorted(currencies))
        raise wrong_option("--rent", f"offers and budget are in {names}; use one currency")
    return next(iter(currencies), request.currency)


def _chosen(arguments: argparse.Namespace, problem: RentProblem, request: RentRequest) -> RentPlan:
    """The cheapest plan in time, else the quickest within the budget, else all machines."""
    try:
        if arguments.deadline:
            return cheapest(problem, units.duration(arguments.deadline))
        if request.budget_remaining is not None:
            return quickest(problem, request.budget_remaining, request.currency)
        return as_many(problem)
    except NoPlan as error:
        option = "--deadline" if arguments.deadline else "--budget"
        raise wrong_option(option, str(error)) from None
