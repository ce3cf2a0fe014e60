"""Plans over probed machines: make, record in the ledger, and write as task files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchfleet.cli.shared.assigned_cells import tasks_file
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.eligibility import PROBED
from benchfleet.domain.event import Event
from benchfleet.domain.plan import ASSIGNED, Plan, forms, newest, plans
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.lease_holders import holders
from benchfleet.machines.probe import report
from benchfleet.machines.probe.report import Capability
from benchfleet.planner.assign import Assigner, Variants
from benchfleet.planner.assignment import Assignment, PlannedCell
from benchfleet.planner.preview import with_paths
from benchfleet.planner.solver.solver import TIME_LIMIT_S
from benchfleet.results.disk import write_atomically
from benchfleet.study import Study

FAILED = "machine_failed"  # the event; data: host, cells (fingerprints), by (who said so)


def ledger_reports(ledger: Ledger) -> list[tuple[Any, str]]:
    """The ledger's reports, each with its origin."""
    return [
        (event.data.get("report"), f"the report in event {event.seq} of the ledger")
        for event in ledger.events(kinds={PROBED})
    ]


def new_reports(ledger: Ledger, documents: Iterable[Any]) -> list[Any]:
    """The documents that the ledger does not have."""
    recorded = [one for one, _ in ledger_reports(ledger)]
    return [one for one in documents if one not in recorded]


def record_reports(ledger: Ledger, documents: Iterable[Any]) -> None:
    """Record the new reports, so that other hosts can plan with them."""
    for one in new_reports(ledger, documents):
        ledger.record(Event(kind=PROBED, data={"report": one}))


def failed_machines(ledger: Ledger, since: Iterable[Any] = ()) -> set[str]:
    """Machines that were marked as failed and have no newer report (`since`: unrecorded ones)."""
    failed: set[str] = set()
    for event in ledger.events(kinds={PROBED, FAILED}):
        if event.kind == FAILED:
            failed.add(str(event.data["host"]))
        else:
            failed.discard(_host_of(event.data.get("report")))
    return failed.difference(map(_host_of, since))


def _host_of(document: Any) -> str:
    return str(document.get("hostname", "")) if isinstance(document, dict) else ""


def known_machines(ledger: Ledger, *, without: Collection[str]) -> list[Capability]:
    """The machines with a report in the ledger, except those of `without`."""
    machines = report.newest(ledger_reports(ledger))
    return [machine for machine in machines if machine.hostname not in without]


def make_plan(
    study: Study,
    ledger: Ledger | None,
    machines: Sequence[Capability],
    cells: Sequence[Cell],
    settings: Mapping[str, Any],
    *,
    released: Collection[str] = (),
) -> tuple[Assignment, Mapping[str, Any]]:
    """The plan for the unfinished cells, and the tasks of each machine. Running cells in `released`
    (fingerprints) are planned as pending ones."""
    records: list[CellRecord] = []
    hosts: dict[str, str] = {}
    earlier_plans: list[Plan] = []
    if ledger is not None:
        records = [
            replace(record, state="pending") if record.fingerprint in released else record
            for record in ledger.cells()
        ]
        hosts = {str(one.record.fingerprint): one.host for one in holders(ledger, records)}
        earlier_plans = plans(ledger.events(kinds={ASSIGNED}))
    variants: Variants = settings.get("variants", "faster")
    assigner = Assigner(
        study.campaign,
        machines,
        records,
        forms=forms(earlier_plans),
        holders=hosts,
        bandwidth=settings.get("bandwidth", 0.0),
        variants=variants,
    )
    effort = settings.get("effort", 1.0)
    plan = assigner.plan(
        cells, seed=settings.get("seed", 0), effort=effort, seconds=TIME_LIMIT_S * max(1.0, effort)
    )
    return plan, tasks_by_host(study, plan, records)


def record_plan(
    study: Study, ledger: Ledger, plan: Assignment, settings: Mapping[str, Any]
) -> Plan:
    """Enroll the planned cells and record the plan; workers of the ledger follow it from now on.
    Call `settle_forms` afterwards, once failed machines hold none of these cells."""
    before = newest(all_before := plans(ledger.events(kinds={ASSIGNED})))
    assigned = [*plan.running, *plan.cells]
    record = Plan(
        number=all_before[-1].number + 1 if all_before else 1,
        hosts={
            host: [str(one.declared.fingerprint) for one in assigned if one.host == host]
            for host in plan.slots
        },
        forms={
            str(one.declared.fingerprint): str(one.cell.fingerprint)
            for one in assigned
            if len(study.campaign.matrix.forms(one.declared)) > 1
        },
        settings=settings,
    )
    ledger.enroll([one.cell for one in assigned])
    study.record_campaign(ledger)
    if before is None or (before.hosts, before.forms) != (record.hosts, record.forms):
        ledger.record(record.event())
    else:
        record = before
    return record


def settle_forms(study: Study, ledger: Ledger, assigned: Iterable[PlannedCell]) -> None:
    """Make the planned variant of each cell pending, and cancel the other variants."""
    planned: set[str] = set()
    others: set[str] = set()
    for one in assigned:
        forms = [str(form.fingerprint) for _, form in study.campaign.matrix.forms(one.declared)]
        if len(forms) > 1:
            planned.add(str(one.cell.fingerprint))
            others.update(forms)
    others -= planned
    if not others:
        return
    why = {"why": "another variant was planned"}
    for record in list(ledger.cells(fingerprints=others, states=["pending"])):
        ledger.record(Event(kind="cancel_asked", fingerprint=record.fingerprint, data=why))
    for record in list(ledger.cells(fingerprints=planned, states=["cancelled"])):
        ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))


def tasks_by_host(
    study: Study, plan: Assignment, records: Iterable[CellRecord]
) -> dict[str, dict[str, Any]]:
    """The tasks of each machine, by its name; a machine without work has an empty list."""
    assigned = [*plan.running, *plan.cells]
    named = with_paths([one.cell for one in assigned], list(records))
    paths = {one.cell.fingerprint: one.path for one in named}
    phases = {phase.name: phase for phase in study.campaign.phases}
    tasks = {}
    for host in plan.slots:
        mine = [one for one in assigned if one.host == host]
        names = list(dict.fromkeys(one.cell.phase for one in mine if one.cell.phase))
        tasks[host] = {
            "machine": host,
            "phase": ", ".join(names),
            "campaign": study.campaign.name,
            "tasks": [
                {
                    "experiment": one.cell.workload.label,
                    "config": one.cell.config.name,
                    "output": f"{paths[one.cell.fingerprint]}/metrics.json",
                    "critical": one.cell.phase in phases
                    and phases[one.cell.phase].is_critical(one.declared),
                    "phase": one.cell.phase,
                    "model": one.cell.model.name,
                    "instead_of": "" if one.cell is one.declared else one.declared.model.name,
                    "cell": one.cell.fingerprint,
                    "declared": one.declared.fingerprint,
                    "begins": round(one.begin, 1),
                    "seconds": round(one.end - one.begin, 1),
                    "running": not one.slots,
                }
                for one in mine
            ],
            "cells": [one.cell.fingerprint for one in mine],
        }
    return tasks


def write_tasks(
    folder: Path, tasks: Mapping[str, Mapping[str, Any]], record: Plan
) -> dict[str, Path]:
    """Write one file for each machine, and delete the files of machines that left the plan."""
    folder.mkdir(parents=True, exist_ok=True)
    campaigns = {one["campaign"] for one in tasks.values()}
    files = {host: folder / tasks_file(host) for host in tasks}
    for old in folder.glob(tasks_file("*")):
        if old not in files.values() and _campaign_of(old) in campaigns:
            old.unlink()
    for host, file in files.items():
        whole = {**tasks[host], "plan": record.name}
        write_atomically(file, json.dumps(whole, indent=2) + "\n")
    return files


def _campaign_of(file: Path) -> str:
    try:
        return str(json.loads(file.read_text("utf-8"))["campaign"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""
