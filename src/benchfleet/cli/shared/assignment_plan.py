"""Making a plan over machines that are known by their reports, and telling it to all of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    """The reports that a ledger keeps, each with where it is from."""
    return [
        (event.data.get("report"), f"the report in event {event.seq} of the ledger")
        for event in ledger.events(kinds={PROBED})
    ]


def new_reports(ledger: Ledger, told: Iterable[Any]) -> list[Any]:
    """Those that are not there yet."""
    known = [one for one, _ in ledger_reports(ledger)]
    return [one for one in told if one not in known]


def record_reports(ledger: Ledger, told: Iterable[Any]) -> None:
    """Record the reports that are not there yet, so that others can plan again by them."""
    for one in new_reports(ledger, told):
        ledger.record(Event(kind=PROBED, data={"report": one}))


def failed_machines(ledger: Ledger, since: Iterable[Any] = ()) -> set[str]:
    """Those that somebody said failed, and of which there is no report `since`."""
    found: set[str] = set()
    for event in ledger.events(kinds={PROBED, FAILED}):
        if event.kind == FAILED:
            found.add(str(event.data["host"]))
        else:
            found.discard(_host_of(event.data.get("report")))
    return found.difference(map(_host_of, since))


def _host_of(told: Any) -> str:
    return str(told.get("hostname", "")) if isinstance(told, dict) else ""


def known_machines(ledger: Ledger, *, without: Collection[str]) -> list[Capability]:
    """The machines that the ledger has reports of, but for those."""
    found = report.newest(ledger_reports(ledger))
    return [machine for machine in found if machine.hostname not in without]


def make_plan(
    study: Study,
    ledger: Ledger | None,
    machines: Sequence[Capability],
    cells: Sequence[Cell],
    settings: Mapping[str, Any],
) -> tuple[Assignment, Mapping[str, Any]]:
    """The plan for what is left of the cells, and what each machine is told of it."""
    records: list[CellRecord] = []
    hosts: dict[str, str] = {}
    told: list[Plan] = []
    if ledger is not None:
        records = list(ledger.cells())
        hosts = {str(one.record.fingerprint): one.host for one in holders(ledger, records)}
        told = plans(ledger.events(kinds={ASSIGNED}))
    variants: Variants = settings.get("variants", "faster")
    assigner = Assigner(
        study.campaign,
        machines,
        records,
        forms=forms(told),
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
    """Enroll what is planned, in the forms that are planned, and record the plan: workers that
    see the ledger go by it from now on."""
    before = newest(all_before := plans(ledger.events(kinds={ASSIGNED})))
    given = [*plan.running, *plan.cells]
    kept = Plan(
        number=all_before[-1].number + 1 if all_before else 1,
        hosts={
            host: [str(one.declared.fingerprint) for one in given if one.host == host]
            for host in plan.slots
        },
        forms={
            str(one.declared.fingerprint): str(one.cell.fingerprint)
            for one in given
            if len(study.campaign.matrix.forms(one.declared)) > 1
        },
        settings=settings,
    )
    ledger.enroll([one.cell for one in given])
    study.record_campaign(ledger)
    if before is None or (before.hosts, before.forms) != (kept.hosts, kept.forms):
        ledger.record(kept.event())
    else:
        kept = before
    _settle_forms(study, ledger, plan.cells)
    return kept


def _settle_forms(study: Study, ledger: Ledger, given: Iterable[PlannedCell]) -> None:
    """Of each cell the form that is planned waits, and no other one does."""
    wanted: set[str] = set()
    others: set[str] = set()
    for one in given:
        forms = [str(form.fingerprint) for _, form in study.campaign.matrix.forms(one.declared)]
        if len(forms) > 1:
            wanted.add(str(one.cell.fingerprint))
            others.update(forms)
    others -= wanted
    if not others:
        return
    why = {"why": "another form of it was planned"}
    for record in list(ledger.cells(fingerprints=others, states=["pending"])):
        ledger.record(Event(kind="cancel_asked", fingerprint=record.fingerprint, data=why))
    for record in list(ledger.cells(fingerprints=wanted, states=["cancelled"])):
        ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))


def tasks_by_host(
    study: Study, plan: Assignment, records: Iterable[CellRecord]
) -> dict[str, dict[str, Any]]:
    """What each machine is told, by its name; a machine with nothing to do is told that."""
    given = [*plan.running, *plan.cells]
    named = with_paths([one.cell for one in given], list(records))
    paths = {one.cell.fingerprint: one.path for one in named}
    phases = {phase.name: phase for phase in study.campaign.phases}
    found = {}
    for host in plan.slots:
        mine = [one for one in given if one.host == host]
        names = list(dict.fromkeys(one.cell.phase for one in mine if one.cell.phase))
        found[host] = {
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
    return found


def write_tasks(folder: Path, told: Mapping[str, Mapping[str, Any]], kept: Plan) -> dict[str, Path]:
    """A file for each machine, each in place of an older one; those of machines that are not in
    the plan any more are taken away."""
    folder.mkdir(parents=True, exist_ok=True)
    campaigns = {one["campaign"] for one in told.values()}
    files = {host: folder / tasks_file(host) for host in told}
    for old in folder.glob(tasks_file("*")):
        if old not in files.values() and _campaign_of(old) in campaigns:
            old.unlink()
    for host, file in files.items():
        whole = {**told[host], "plan": kept.name}
        write_atomically(file, json.dumps(whole, indent=2) + "\n")
    return files


def _campaign_of(file: Path) -> str:
    try:
        return str(json.loads(file.read_text("utf-8"))["campaign"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""
