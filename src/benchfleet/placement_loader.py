"""Where a campaign's cells may run and should: read from the reports and plans of its ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.campaign.base import Campaign
from benchfleet.domain.cell import Cell, Workload
from benchfleet.domain.eligibility import PROBED, default_eligibility
from benchfleet.domain.placement import Placement, Reported
from benchfleet.domain.plan import ASSIGNED, forms, newest, plans
from benchfleet.errors import BenchfleetError, PluginError
from benchfleet.ledger.base import Ledger

KINDS = frozenset({ASSIGNED, PROBED})  # of events that tell it
_MAX_THREADS = 32  # which ask for data


def load_placement(
    campaign: Campaign,
    ledger: Ledger | None,
    *,
    local_host: str | None = None,
    missing_data: Mapping[str, str] = {},
) -> Placement:
    """The placement by the ledger's reports and plans; the runner calls its own host ``""``.

    `local_host` is what others call that host, ``""`` where it runs no cells, None to leave it out.
    `missing_data` is that of `missing_data_of`.

    Without any report, the rules that the campaign states bind it by its facts of now.

    A report that cannot be read binds nothing, and is named in the notes.
    """
    events = ledger.events(kinds=KINDS) if ledger else []
    reports = [
        (event.data.get("report"), f"the report in event {event.seq} of the ledger")
        for event in events
        if event.kind == PROBED
    ]
    machines, notes = _reported(reports) if reports else ({}, ())
    if not reports and local_host is not None and campaign.eligibility != default_eligibility():
        machines[""] = _local_machine(campaign.results)
    if local_host in machines:
        machines[""] = machines[local_host]
    all_plans = plans(events)
    plan, run_as = newest(all_plans), forms(all_plans)
    planned_hosts = {
        run_as.get(cell, cell): "" if host == local_host else host
        for host, cells in ((plan.hosts if plan else None) or {}).items()
        for cell in cells
    }
    return Placement(
        rules=campaign.eligibility,
        machines=machines,
        variants=frozenset(campaign.variants),
        planned_hosts=planned_hosts,
        missing_data=missing_data,
        local_host=local_host or "",
        notes=notes,
    )


def missing_data_of(cells: Sequence[Cell]) -> dict[str, str]:
    """Why this host cannot have the data of these cells, by fingerprint. Each workload is asked
    once, all at the same time, since a network that drops packets lets each wait."""
    names = {cell.fingerprint: cell.workload.canonical for cell in cells}
    workloads = {cell.workload.canonical: cell.workload for cell in cells}
    if not workloads:
        return {}
    from concurrent.futures import ThreadPoolExecutor  # which most looks do without

    with ThreadPoolExecutor(min(_MAX_THREADS, len(workloads))) as threads:
        reasons = dict(zip(workloads, threads.map(_missing_data, workloads.values()), strict=True))
    return {name: reasons[work] for name, work in names.items() if reasons[work]}


def _missing_data(workload: Workload) -> str:
    try:
        benchmark = benchmark_class(workload.benchmark)({**workload.params, **workload.outside})
    except (PluginError, ValueError):
        return ""  # a cell of another host, whose plugin is not here
    return benchmark.missing_data(workload.subset)


def _reported(reports: Sequence[tuple[Any, str]]) -> tuple[dict[str, Reported], tuple[str, ...]]:
    """The newest of these reports of each machine, and which cannot be read."""
    from benchfleet.machines.probe import report  # where there is one: every `status` comes here

    whole, notes = [], []
    for one in reports:
        try:
            report.read(*one)
            whole.append(one)
        except BenchfleetError as error:
            notes.append(f"{error}; it is ignored")
    machines = {
        machine.hostname: Reported(
            facts=machine.facts, by=f"report of {machine.hostname}, {_moment(machine.at)}"
        )
        for machine in report.newest(whole)
    }
    return machines, tuple(notes)


def _moment(at: str) -> str:
    """As people write it: ``2026-03-01 14:02``."""
    return at[:16].replace("T", " ") or "of no date"


@cache
def _local_machine(results: Path) -> Reported:
    """What is known of this machine without measuring it; speeds are 0."""
    from benchfleet.machines.probe import hardware, report

    parts = {
        "system": hardware.system(),
        "cpu": hardware.cpu(),
        "memory": hardware.memory(),
        "storage": hardware.storage(results),
        "gpu": hardware.gpus(),
        "software": hardware.software(),
        "network": hardware.network(),
    }
    facts = report.facts_of(parts, parts["system"]["hostname"])
    by = "this machine now; `benchfleet probe --ledger` measures its speeds too"
    return Reported(facts=facts, by=by)
