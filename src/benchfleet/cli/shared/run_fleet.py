"""The machines of a run, once its user agreed to what is rented."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from benchfleet.cached_results import in_cache
from benchfleet.cli.shared.fleet import machines, warn_of_same_machines
from benchfleet.cli.shared.options import RequestedDevices
from benchfleet.cli.shared.rent import budget_of
from benchfleet.domain.cell import Cell
from benchfleet.fleet import Fleet
from benchfleet.study import Study


def run_fleet(
    arguments: argparse.Namespace, study: Study, cells: Sequence[Cell], devices: RequestedDevices
) -> tuple[Study, Fleet] | None:
    """The study with the budget of the run, and its machines; None if the user declines."""
    budget = budget_of(arguments, study.campaign.budget)
    study = replace(study, campaign=replace(study.campaign, budget=budget))
    fleet = machines(arguments, devices, study.campaign.engine, budget)
    warn_of_same_machines(fleet.hosts)
    if fleet.rent is None:
        return study, fleet
    from benchfleet.cli.shared.rent_agreement import agree_to_rent  # and the planner
    from benchfleet.wiring import count_spending

    count_spending(study, fleet.rent.spending)
    cached, _ = in_cache(study, cells, study.records(cells))
    to_run = [cell for cell in cells if cell.fingerprint not in cached]
    agreed = agree_to_rent(arguments, study, to_run, fleet)
    if agreed is None:
        print("nothing was rented, and nothing was run")
        return None
    return study, agreed
