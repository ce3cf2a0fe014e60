"""``benchfleet reassign``: move the cells of a failed machine to the others."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.cli.shared import assignment_plan, leases, next_command, options
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain import plan as plan_module
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.event import Event
from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.plan import ASSIGNED, Plan
from benchfleet.domain.slots import BEGAN
from benchfleet.errors import BenchfleetError
from benchfleet.hints import hint
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.lease_holders import Holder, holders
from benchfleet.machines.probe import report
from benchfleet.orders.cells import release
from benchfleet.planner.assignment import Assignment
from benchfleet.study import Study

HOST_READY = "host_ready"  # the event of a run that reached a host over SSH
_HELD_ELSEWHERE = (
    "a run on another machine uses it over SSH; that run moves its own cells elsewhere once it "
    "loses the machine"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(
        parser, example="benchfleet reassign study.yaml --failed-machine lab2"
    )
    parser.add_argument(
        "--failed-machine",
        dest="host",
        action="append",
        required=True,
        metavar="HOST",
        help="the machine, as `status` shows it; repeatable",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("tasks"), help="where tasks go (tasks)"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(cell=[], runner=[])


@dataclass(frozen=True, kw_only=True)
class _Replanned:
    """What became of the cells that the plan gave to failed machines."""

    # what is neither done nor under way elsewhere, by fingerprint as declared
    remaining: Sequence[str]
    plan: Assignment | None = None
    files: Mapping[str, Path]
    why_not: str = ""  # why nothing was planned again

    @property
    def moved(self) -> Counter[str]:
        """How many of them each machine has now."""
        assigned = self.plan.cells if self.plan else ()
        return Counter(one.host for one in assigned if one.declared.fingerprint in self.remaining)


def main(arguments: argparse.Namespace) -> int:
    """Record that it failed, plan over the others what it was to do, and release all that its
    runners hold. The plan comes first: should the machine still live, it leaves the released cells
    to the others. What it finishes is refused."""
    study, _ = options.opened(arguments)
    failed = list(dict.fromkeys(arguments.host))
    with closing(leases.ledger_of(study)) as ledger:
        records = list(ledger.cells())
        held_leases = holders(ledger, records)
        chosen = leases.choose(arguments, held_leases)
        plan = plan_module.newest(plan_module.plans(ledger.events(kinds={ASSIGNED})))
        _check_names(ledger, failed, held_leases, plan)
        remaining = _remaining_cells(plan, failed, records, chosen) if plan else {}
        if not leases.confirmed(arguments, chosen, "reassign"):
            print("nothing was reassigned")
            return 1
        over_ssh = {event.data.get("host") for event in ledger.events(kinds={HOST_READY})}
        for host in failed:
            _record_failure(study, ledger, host, chosen)
        again = None
        if plan and remaining:
            again = _plan_again(arguments, study, ledger, plan, list(remaining), chosen)
        released = [one for host in failed for one in _release(ledger, host, chosen)]
        if again and again.plan:
            assignment_plan.settle_forms(study, ledger, again.plan.cells)
    only_planned = sum(not was_running for was_running in remaining.values())
    if arguments.json:
        print_json(_as_json(study, released, only_planned, again))
    else:
        names = ", ".join(failed)
        if released or remaining:
            held_text = f"its worker held {counted(len(released), 'cell')}"
            held_text = held_text if released else "no worker there held a cell"
            waited = counted(only_planned, "cell")
            say(f"{names} failed: {held_text}, {waited} only planned for it")
        if reached := ", ".join(host for host in failed if host in over_ssh):
            say(f"{reached}: {_HELD_ELSEWHERE}")
        if released or not remaining:
            none = f"{names} holds no cell and has none planned"
            leases.print_pending(arguments, study, "reassigned", released, none)
        if again is not None:
            _show(arguments, again)
    return 0 if again is None or (again.plan is not None and again.plan.is_usable) else 1


def _record_failure(study: Study, ledger: Ledger, host: str, chosen: Sequence[Holder]) -> None:
    names = [str(one.record.fingerprint) for one in chosen if one.host == host]
    data = {"host": host, "cells": names, "by": study.host}
    ledger.record(Event(kind=assignment_plan.FAILED, data=data))


def _release(ledger: Ledger, host: str, chosen: Sequence[Holder]) -> list[Holder]:
    own = [one for one in chosen if one.host == host]
    return release(ledger, own, f"its machine {host} failed")


def _check_names(
    ledger: Ledger, failed: Sequence[str], held_leases: Sequence[Holder], plan: Plan | None
) -> None:
    """Raises BenchfleetError for an unknown machine."""
    known_hosts = {one.host for one in held_leases} | set((plan.hosts if plan else None) or ())
    known_hosts |= {one.hostname for one in report.newest(assignment_plan.ledger_reports(ledger))}
    for event in ledger.events(kinds={BEGAN, HOST_READY}):
        known_hosts.add(str(event.data.get("host") or event.data.get("machine") or ""))
    names = sorted(filter(None, known_hosts))
    for host in failed:
        if host not in known_hosts:
            instead = hint(host, names)
            raise BenchfleetError(f"this campaign has no machine {host!r}; {instead}")


def _remaining_cells(
    plan: Plan,
    failed: Sequence[str],
    records: Sequence[CellRecord],
    chosen: Sequence[Holder],
) -> dict[str, bool]:
    """What the plan gave these machines that has not ended, and is not run by others; of each cell,
    as declared, whether it was running there."""
    states = {str(record.fingerprint): record.state for record in records}
    theirs = {str(one.record.fingerprint) for one in chosen}
    assigned = {cell: form for host in failed for cell, form in plan.of(host).items()}
    return {
        declared: form in theirs
        for declared, form in assigned.items()
        if form in theirs or states.get(form, "pending") in ("pending", "failed", "partial")
    }


def _plan_again(
    arguments: argparse.Namespace,
    study: Study,
    ledger: Ledger,
    plan: Plan,
    remaining: Sequence[str],
    to_release: Sequence[Holder],
) -> _Replanned:
    """All that the plan has and that is not done, over the machines that are left."""
    if study.campaign.file is None:
        why = "a new plan needs the campaign's file: reassign CAMPAIGN --ledger …"
        return _Replanned(remaining=remaining, files={}, why_not=why)
    without = {*plan.settings.get("without", ()), *assignment_plan.failed_machines(ledger)}
    machines = assignment_plan.known_machines(ledger, without=without)
    if not machines:
        why = "no other machine is known: run `benchfleet probe` on one, then `benchfleet assign`"
        return _Replanned(remaining=remaining, files={}, why_not=why)
    cells = [cell for cell in study.campaign.matrix.expand() if cell.fingerprint in plan.cells]
    released = {str(one.record.fingerprint) for one in to_release}
    assignment, tasks = assignment_plan.make_plan(
        study, ledger, machines, cells, plan.settings, released=released
    )
    plan_record = assignment_plan.record_plan(study, ledger, assignment, plan.settings)
    files = assignment_plan.write_tasks(arguments.out, tasks, plan_record)
    return _Replanned(remaining=remaining, plan=assignment, files=files)


def _show(arguments: argparse.Namespace, again: _Replanned) -> None:
    if again.plan is None:
        cells = counted(len(again.remaining), "cell")
        say(f"{cells} of its plan stay unassigned: {again.why_not}")
        return
    moved = ", ".join(f"{count} to {host}" for host, count in sorted(again.moved.items()))
    say(f"planned again: {moved or 'nothing'}")
    total = Counter(one.host for one in again.plan.cells)
    for host, file in again.files.items():
        now = counted(total[host], "cell")
        say(f"{host}: {now} now → {display_path(file.absolute())}")
    for cell, why in again.plan.unplaceable.items():
        say(f"fits on no machine: {cell}: {why}")
    print(f"everything ends in {duration(again.plan.makespan)} if all of them keep working")
    command = next_command.same_choice(arguments, "work")
    say(f"running workers pick it up; restart one that has ended: {command} --assigned")


def _as_json(
    study: Study, released: Sequence[Holder], only_planned: int, again: _Replanned | None
) -> dict[str, Any]:
    plan = again.plan if again else None
    return {
        "campaign": study.campaign.name,
        "reassigned": [one.to_dict() for one in released],
        "only_planned": only_planned,
        "moved": dict(again.moved) if again else {},
        "makespan": plan.makespan if plan else None,
        "nowhere": dict(plan.unplaceable) if plan else {},
        "files": {host: str(file) for host, file in again.files.items()} if again else {},
        "problem": again.why_not if again else "",
    }
