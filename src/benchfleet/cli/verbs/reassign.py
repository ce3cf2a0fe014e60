"""``benchfleet reassign``: give what a failed machine held and was to do to the others."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.cli.shared import assignment_plan, leases, options
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain import plan as told
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
from benchfleet.planner.assignment import Assignment
from benchfleet.study import Study

HOST_READY = "host_ready"  # the event of a run that reached a host over SSH
_HELD_ELSEWHERE = (
    "a run on another machine used it over SSH; what that run has there is its own, and it shares "
    "that out again by itself once the machine is lost to it"
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
        help="the machine, as `status` calls it; may be said again",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("tasks"), help="where tasks go (tasks)"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(cell=[], runner=[])


@dataclass(frozen=True, kw_only=True)
class _Again:
    """What became of the cells that the plan gave to failed machines."""

    left: Sequence[str]  # what is neither done nor under way elsewhere, by fingerprint as declared
    plan: Assignment | None = None
    files: Mapping[str, Path]
    why_not: str = ""  # why nothing was planned again

    @property
    def moved(self) -> Counter[str]:
        """How many of them each machine has now."""
        given = self.plan.cells if self.plan else ()
        return Counter(one.host for one in given if one.declared.fingerprint in self.left)


def main(arguments: argparse.Namespace) -> int:
    """Release all that its runners hold, record that it failed, and plan over the others what it
    was to do; should it still live, what it finishes is refused."""
    study, _ = options.opened(arguments)
    failed = list(dict.fromkeys(arguments.host))
    with closing(leases.ledger_of(study)) as ledger:
        records = list(ledger.cells())
        found = holders(ledger, records)
        meant = leases.choose(arguments, found)
        plan = told.newest(told.plans(ledger.events(kinds={ASSIGNED})))
        _check_names(ledger, failed, found, plan)
        left = _left(plan, failed, records, meant) if plan else {}
        if not leases.agreed(arguments, meant, "reassign"):
            print("nothing was reassigned")
            return 1
        over_ssh = {event.data.get("host") for event in ledger.events(kinds={HOST_READY})}
        given = [one for host in failed for one in _release(study, ledger, host, meant)]
        again = _plan_again(arguments, study, ledger, plan, list(left)) if plan and left else None
    only_planned = sum(not was_running for was_running in left.values())
    if arguments.json:
        print_json(_as_json(study, given, only_planned, again))
    else:
        names = ", ".join(failed)
        if given or left:
            held = f"its worker held {counted(len(given), 'cell')}"
            held = held if given else "no worker there held a cell"
            waited = counted(only_planned, "cell")
            say(f"{names} failed: {held}, {waited} only planned for it")
        if reached := ", ".join(host for host in failed if host in over_ssh):
            say(f"{reached}: {_HELD_ELSEWHERE}")
        if given or not left:
            none = f"{names} holds no cell, and has none to do"
            leases.tell(arguments, study, "reassigned", given, none)
        if again is not None:
            _show(arguments, again)
    return 1 if again is not None and (again.plan is None or again.plan.unplaceable) else 0


def _release(study: Study, ledger: Ledger, host: str, meant: Sequence[Holder]) -> list[Holder]:
    """Record that the machine failed, and release what it holds."""
    own = [one for one in meant if one.host == host]
    names = [str(one.record.fingerprint) for one in own]
    data = {"host": host, "cells": names, "by": study.host}
    ledger.record(Event(kind=assignment_plan.FAILED, data=data))
    return leases.released(ledger, own, f"its machine {host} failed")


def _check_names(
    ledger: Ledger, failed: Sequence[str], found: Sequence[Holder], plan: Plan | None
) -> None:
    """Raises BenchfleetError for a machine that nothing was ever heard of."""
    known = {one.host for one in found} | set((plan.hosts if plan else None) or ())
    known |= {one.hostname for one in report.newest(assignment_plan.ledger_reports(ledger))}
    for event in ledger.events(kinds={BEGAN, HOST_READY}):
        known.add(str(event.data.get("host") or event.data.get("machine") or ""))
    names = sorted(filter(None, known))
    for host in failed:
        if host not in known:
            instead = hint(host, names)
            raise BenchfleetError(f"no machine of this campaign is called {host!r}; {instead}")


def _left(
    plan: Plan,
    failed: Sequence[str],
    records: Sequence[CellRecord],
    meant: Sequence[Holder],
) -> dict[str, bool]:
    """What the plan gave these machines that has not ended, and is not run by others; of each cell,
    as declared, whether it was running there."""
    states = {str(record.fingerprint): record.state for record in records}
    theirs = {str(one.record.fingerprint) for one in meant}
    given = {cell: form for host in failed for cell, form in plan.of(host).items()}
    return {
        declared: form in theirs
        for declared, form in given.items()
        if form in theirs or states.get(form, "pending") in ("pending", "failed", "partial")
    }


def _plan_again(
    arguments: argparse.Namespace,
    study: Study,
    ledger: Ledger,
    plan: Plan,
    left: Sequence[str],
) -> _Again:
    """All that the plan has and that is not done, over the machines that are left."""
    if study.campaign.file is None:
        why = "planning again takes the campaign's file: reassign CAMPAIGN --ledger …"
        return _Again(left=left, files={}, why_not=why)
    without = {*plan.settings.get("without", ()), *assignment_plan.failed_machines(ledger)}
    machines = assignment_plan.known_machines(ledger, without=without)
    if not machines:
        why = "no other machine is known: `benchfleet probe` one, and run `benchfleet assign`"
        return _Again(left=left, files={}, why_not=why)
    cells = [cell for cell in study.campaign.matrix.expand() if cell.fingerprint in plan.cells]
    made, tasks = assignment_plan.make_plan(study, ledger, machines, cells, plan.settings)
    kept = assignment_plan.record_plan(study, ledger, made, plan.settings)
    files = assignment_plan.write_tasks(arguments.out, tasks, kept)
    return _Again(left=left, plan=made, files=files)


def _show(arguments: argparse.Namespace, again: _Again) -> None:
    if again.plan is None:
        cells = counted(len(again.left), "cell")
        say(f"{cells} of its plan go to nobody: {again.why_not}")
        return
    moved = ", ".join(f"{count} to {host}" for host, count in sorted(again.moved.items()))
    say(f"planned again: {moved or 'nothing'}")
    total = Counter(one.host for one in again.plan.cells)
    for host, file in again.files.items():
        now = counted(total[host], "cell")
        say(f"{host}: {now} now → {display_path(file.absolute())}")
    for cell, why in again.plan.unplaceable.items():
        say(f"fits nowhere: {cell}: {why}")
    print(f"all is done in {duration(again.plan.makespan)}, if all of them work from now on")
    command = options.same_choice(arguments, "work")
    say(f"workers take it by themselves; where one has ended: {command} --assigned")


def _as_json(
    study: Study, given: Sequence[Holder], only_planned: int, again: _Again | None
) -> dict[str, Any]:
    plan = again.plan if again else None
    return {
        "campaign": study.campaign.name,
        "reassigned": [one.to_dict() for one in given],
        "only_planned": only_planned,
        "moved": dict(again.moved) if again else {},
        "makespan": plan.makespan if plan else None,
        "nowhere": dict(plan.unplaceable) if plan else {},
        "files": {host: str(file) for host, file in again.files.items()} if again else {},
        "problem": again.why_not if again else "",
    }
