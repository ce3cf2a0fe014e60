"""``benchfleet assign``: which machine runs which cells, so that the last one ends soonest."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from benchfleet.campaign.load import load_campaign
from benchfleet.campaign.selection import choose_cells
from benchfleet.cli.shared import assignment_plan, next_command, option_types, options
from benchfleet.cli.text.gantt import headline, svg, text
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.units import size
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.ledger.base import Ledger
from benchfleet.machines.probe import report
from benchfleet.machines.probe.report import Capability
from benchfleet.planner.assignment import Assignment, PlannedCell
from benchfleet.planner.reruns import find_reruns
from benchfleet.study import Study, open_study

_MAX_LISTED_REASONS = 12  # reasons in the text output


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet assign study.yaml --reports reports")
    options.choice(parser)
    parser.add_argument(
        "--reports",
        metavar="PLACE",
        type=Path,
        nargs="+",
        default=[],
        help="folders and files of capability reports (default: those in the ledger)",
    )
    parser.add_argument(
        "--without",
        metavar="HOST,…",
        default="",
        help="leave these machines out, such as one that failed",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("tasks"), help="where tasks go (tasks)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show the plan; write no tasks and record nothing"
    )
    parser.add_argument("--gantt", metavar="FILE.svg", type=Path, help="draw the plan")
    parser.add_argument(
        "--bandwidth",
        metavar="RATE",
        type=_rate,
        default=0.0,
        help="at which models get to the machines, such as 100MB/s (as their links tell)",
    )
    parser.add_argument(
        "--variants",
        choices=("faster", "needed", "mixed"),
        default="faster",
        help="run cells with variants where that is sooner, or only those that fit nowhere in "
        "full; mixed: where that is sooner, also if others of their table ran otherwise already",
    )
    parser.add_argument(
        "--effort",
        metavar="N",
        type=option_types.number(1000, "effort {}: use a number up to 1000"),
        default=1.0,
        help="how long the solver may look, in its own time: the same plan every time (1)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the search (0)")


def main(arguments: argparse.Namespace) -> int:
    """Plan, write each machine's tasks, and say what the plan comes to."""
    _check_options(arguments)
    campaign = load_campaign(arguments.campaign).with_results(arguments.results)
    study = open_study(campaign, ledger=arguments.ledger)
    # As declared, whatever was given to whom before.
    cells = choose_cells(campaign.matrix.expand(), only=arguments.only, exclude=arguments.exclude)
    documents = report.read_files(arguments.reports) if arguments.reports else []
    with ExitStack() as opened:
        if (ledger := study.open_existing_ledger()) is not None:
            opened.callback(ledger.close)
        machines, failed = _machines(arguments, ledger, documents)
        settings = {
            "bandwidth": arguments.bandwidth,
            "variants": arguments.variants,
            "seed": arguments.seed,
            "effort": arguments.effort,
            "without": _without(arguments),
        }
        reruns = find_reruns(study, cells)
        plan, tasks = assignment_plan.make_plan(study, ledger, machines, cells, settings)
        files: dict[str, Path] = {}
        if not arguments.dry_run:
            if ledger is None:
                ledger = opened.enter_context(closing(study.open_ledger()))
            assignment_plan.record_reports(ledger, (document for document, _ in documents))
            plan_record = assignment_plan.record_plan(study, ledger, plan, settings)
            assignment_plan.settle_forms(study, ledger, plan.cells)
            files = assignment_plan.write_tasks(arguments.out, tasks, plan_record)
    if arguments.gantt:
        arguments.gantt.write_text(svg(plan, title=study.campaign.name), "utf-8")
    if arguments.json:
        more = {"left_out": failed, "reruns": [one.to_dict() for one in reruns]}
        print_json({**as_json(study, plan, files), **more})
    else:
        say(*map(str, reruns))
        for line in (*lines(study, plan, files), *_remarks(arguments, plan, failed)):
            say(line.rstrip())
    return 0 if plan.is_usable else 1


def _check_options(arguments: argparse.Namespace) -> None:
    if arguments.limit is not None:
        message = "is for trial runs, which need no plan; use it with `run`"
        raise wrong_option("--limit", message)
    if arguments.gantt and (arguments.gantt.is_dir() or not arguments.gantt.parent.is_dir()):
        why = "is a folder" if arguments.gantt.is_dir() else "is in a folder that does not exist"
        raise BenchfleetError(f"--gantt {arguments.gantt} {why}; name a file to draw the plan in")


def _remarks(
    arguments: argparse.Namespace, plan: Assignment, failed: Sequence[str]
) -> Iterator[str]:
    """Notes below the plan."""
    if failed:
        names = ", ".join(failed)
        yield f"note: left out, marked as failed: {names}; probe it to use it again"
    if plan.failed:
        retry = next_command.same_choice(arguments, "retry")
        yield f"note: {plan.failed} of these cells failed before; {retry}"
    if arguments.dry_run:
        yield "nothing was written or recorded"
    if arguments.gantt:
        yield f"chart in {display_path(arguments.gantt.absolute())}"


def _without(arguments: argparse.Namespace) -> list[str]:
    return [name for one in arguments.without.split(",") if (name := one.strip())]


def _machines(
    arguments: argparse.Namespace, ledger: Ledger | None, documents: list[tuple[Any, str]]
) -> tuple[list[Capability], list[str]]:
    """Those that there are reports of, less those that are left out; and of these the ones that
    failed."""
    machines = report.newest(
        documents or ([] if ledger is None else assignment_plan.ledger_reports(ledger))
    )
    if not machines:
        raise BenchfleetError(
            "no capability report: run `benchfleet probe` on each machine, and name the "
            "files with --reports, or record them with `probe CAMPAIGN --ledger URL`"
        )
    names = {machine.hostname for machine in machines}
    without = set(_without(arguments))
    if unknown := sorted(without - names):
        raise BenchfleetError(
            f"--without {', '.join(unknown)}: no report is of that machine; there are "
            f"{', '.join(sorted(names))}"
        )
    failed: set[str] = set()
    if ledger is not None:
        unrecorded = assignment_plan.new_reports(ledger, [document for document, _ in documents])
        failed = assignment_plan.failed_machines(ledger, since=unrecorded) & names - without
    usable = [one for one in machines if one.hostname not in without | failed]
    if not usable:
        why = "are marked as failed in the ledger; probe one again" if failed else "are left out"
        raise BenchfleetError(f"no usable machine: all machines with a report {why}")
    return usable, sorted(failed)


def lines(study: Study, plan: Assignment, files: Mapping[str, Path]) -> Iterator[str]:
    """The plan for a person."""
    yield (
        f"{study.campaign.name}: {counted(len(plan.cells), 'cell')} on "
        f"{counted(len(plan.slots), 'machine')}"
        + (f" · {plan.done} done" if plan.done else "")
        + (f" · {len(plan.running)} running" if plan.running else "")
        + (f" · {len(plan.unplaceable)} fit on no machine" if plan.unplaceable else "")
    )
    yield headline(plan)
    yield ""
    yield from text(plan)
    yield ""
    for host in plan.slots:
        mine = [one for one in plan.cells if one.host == host]
        runs = sum(one.host == host for one in plan.running)
        more = f", and {runs} running" if runs else ""
        file = f" → {display_path(files[host].absolute())}" if host in files else ""
        yield f"{host}: {counted(len(mine), 'cell')}{_forms(mine)}{more}{file}"
    for name, (begin, end) in plan.phases.items():
        if name:
            yield f"phase {name}: from {duration(begin)} to {duration(end)}"
    yield from _nowhere(plan)
    if plan.cells:
        sources = ", ".join(f"{count} by {_BY[name]}" for name, count in plan.times.items())
        yield f"times: {sources}"
    for note in plan.notes:
        yield f"note: {note}"


def _nowhere(plan: Assignment) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}  # by the reason
    for cell, why in plan.unplaceable.items():
        by_reason.setdefault(why, []).append(cell)
    for why, cells in list(by_reason.items())[:_MAX_LISTED_REASONS]:
        others = f" and {counted(len(cells) - 1, 'other')}" if len(cells) > 1 else ""
        yield f"warning: fits on no machine: {cells[0]}{others}: {why}"
    if rest := sum(map(len, list(by_reason.values())[_MAX_LISTED_REASONS:])):
        yield f"… and {rest} more fit on no machine; --json lists them"


_BY = {
    "ran there": "what ran there",
    "ran elsewhere": "what ran elsewhere, scaled by measured speed",
    "speed and size": "measured speed and the model's size (a guess)",
    "speed alone": "measured speed alone (a minute on a middling machine: a guess)",
}


def _forms(mine: Iterable[PlannedCell]) -> str:
    variants = [one for one in mine if one.cell is not one.declared]
    if not variants:
        return ""
    names = ", ".join(dict.fromkeys(one.cell.model.name for one in variants))
    return f", {len(variants)} with variants ({names})"


def as_json(study: Study, plan: Assignment, files: Mapping[str, Path]) -> dict[str, Any]:
    """The plan as JSON values; times are seconds from its beginning."""
    return {
        "campaign": study.campaign.name,
        "makespan": plan.makespan,
        "lower_bound": plan.bound,
        "gap": plan.gap,
        "sequential": plan.sequential,
        "found_by": plan.by,
        "times_known_by": dict(plan.times),
        "phases": {name: {"begin": b, "end": e} for name, (b, e) in plan.phases.items()},
        "done": plan.done,
        "failed": plan.failed,
        "running": {one.cell.id: one.host for one in plan.running},
        "machines": {
            host: {
                "slots": slots,
                "cells": sum(one.host == host for one in plan.cells),
                "ends": max((one.end for one in plan.cells if one.host == host), default=0.0),
                "file": str(files.get(host, "")),
            }
            for host, slots in plan.slots.items()
        },
        "cells": [
            {
                "cell": one.cell.id,
                "fingerprint": one.cell.fingerprint,
                "instead_of": "" if one.cell is one.declared else one.declared.id,
                "machine": one.host,
                "slots": list(one.slots),
                "begin": one.begin,
                "end": one.end,
            }
            for one in plan.cells
        ],
        "nowhere": dict(plan.unplaceable),
        "notes": list(plan.notes),
    }


def _rate(text: str) -> float:
    try:
        return float(size(re.sub(r" ?/ ?s$", "", text)))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a rate: use a form such as 100MB/s"
        ) from None
