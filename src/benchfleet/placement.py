"""Where a campaign's cells may run and should: read from the reports and plans of its ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchfleet.campaign.base import Campaign
from benchfleet.domain.eligibility import PROBED
from benchfleet.domain.placement import Placing, Reported
from benchfleet.domain.plan import ASSIGNED, forms, newest, plans
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.base import Ledger

KINDS = frozenset({ASSIGNED, PROBED})  # of events that tell it


def placing_of(campaign: Campaign, ledger: Ledger, *, here: str = "") -> Placing:
    """What the ledger tells now; the machine `here` is the runner's own, which calls it ``""``.

    A report that cannot be read binds nobody, and is told of.
    """
    events = ledger.events(kinds=KINDS)
    told = [
        (event.data.get("report"), f"the report in event {event.seq} of the ledger")
        for event in events
        if event.kind == PROBED
    ]
    machines, notes = _reported(told) if told else ({}, ())
    if here in machines:
        machines[""] = machines[here]
    made = plans(events)
    plan, run_as = newest(made), forms(made)
    homes = {
        run_as.get(cell, cell): "" if host == here else host
        for host, cells in ((plan.hosts if plan else None) or {}).items()
        for cell in cells
    }
    return Placing(
        rules=campaign.eligibility,
        machines=machines,
        variants=frozenset(campaign.variants),
        homes=homes,
        here=here,
        notes=notes,
    )


def _reported(told: Sequence[tuple[Any, str]]) -> tuple[dict[str, Reported], tuple[str, ...]]:
    """The newest of these reports of each machine, and which cannot be read."""
    from benchfleet.machines.probe import report  # where there is one: every `status` comes here

    whole, notes = [], []
    for one in told:
        try:
            report.read(*one)
            whole.append(one)
        except BenchfleetError as error:
            notes.append(f"{error}; it is not heeded")
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
