"""``benchfleet assign``: which machine runs which cells, so that all are done soonest."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from benchfleet.bench import Bench, open_bench
from benchfleet.campaign.choose import choose
from benchfleet.campaign.load import load_campaign
from benchfleet.campaign.units import size
from benchfleet.cli import options
from benchfleet.cli.assigned import tasks_file
from benchfleet.cli.assigning import Assigner, Assignment, Given
from benchfleet.cli.gantt import headline, svg, text
from benchfleet.cli.planning import with_paths
from benchfleet.cli.probe import PROBED
from benchfleet.cli.words import duration, printable, shown_path
from benchfleet.domain.attempt import CellRecord
from benchfleet.errors import BenchfleetError, CampaignError, Mistake
from benchfleet.ledger.base import Ledger
from benchfleet.machines.probe.report import Capability, newest, read_files

_SHOWN = 12  # cells of a kind that are named


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
        help="folders and files of capability reports (those that --ledger holds)",
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
        choices=("faster", "needed"),
        default="faster",
        help="run cells with variants where that is sooner, or only those that fit nowhere in full",
    )
    parser.add_argument(
        "--effort",
        metavar="N",
        type=_effort,
        default=1.0,
        help="how long the solver may look, in its own time: the same plan every time (1)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the search (0)")


def main(arguments: argparse.Namespace) -> int:
    """Plan, write each machine's tasks, and say what the plan comes to."""
    if arguments.limit is not None:
        message = "makes cells for a trial, which no plan is needed for; run them where you are"
        raise CampaignError("command line", [Mistake(key="--limit", message=message)])
    campaign = load_campaign(arguments.campaign)
    if arguments.results is not None:
        campaign = campaign.with_results(arguments.results)
    bench = open_bench(campaign, ledger=arguments.ledger)
    # As declared, whatever was given to whom before.
    cells = choose(campaign.matrix.expand(), only=arguments.only, exclude=arguments.exclude)
    records: list[CellRecord] = []
    events: list[tuple[Any, str]] = []
    if (ledger := bench.existing_ledger()) is not None:
        with closing(ledger):
            records = list(ledger.cells())
            events = _recorded(ledger)
    machines = _machines(arguments, events)
    assigner = Assigner(
        bench.campaign,
        machines,
        records,
        bandwidth=arguments.bandwidth,
        needed=arguments.variants == "needed",
    )
    plan = assigner.plan(cells, seed=arguments.seed, limit=arguments.effort)
    told = tasks(bench, plan, records)
    files = _write(arguments.out, told)
    bench.assign({one.declared.fingerprint: one.cell.fingerprint for one in plan.given})
    if arguments.gantt:
        arguments.gantt.write_text(svg(plan, title=bench.campaign.name), "utf-8")
    if arguments.json:
        print(json.dumps(as_json(bench, plan, files), indent=2))
    else:
        for line in lines(bench, plan, files):
            print(printable(line).rstrip())
        if arguments.gantt:
            print(printable(f"drawn in {shown_path(arguments.gantt.absolute())}"))
    return 1 if plan.nowhere else 0


def _recorded(ledger: Ledger) -> list[tuple[Any, str]]:
    return [
        (event.data.get("report"), f"the report in event {event.seq} of the ledger")
        for event in ledger.events(kinds=[PROBED])
    ]


def _machines(arguments: argparse.Namespace, events: list[tuple[Any, str]]) -> list[Capability]:
    """Those that there are reports of, less those that are left out."""
    found = read_files(arguments.reports) if arguments.reports else newest(events)
    if not found:
        raise BenchfleetError(
            "there is no capability report: run `benchfleet probe` on each machine, and name the "
            "files with --reports, or record them with `probe CAMPAIGN --ledger URL`"
        )
    names = {machine.hostname for machine in found}
    without = {name.strip() for name in arguments.without.split(",") if name.strip()}
    if unknown := sorted(without - names):
        raise BenchfleetError(
            f"--without {', '.join(unknown)}: no report is of that machine; there are "
            f"{', '.join(sorted(names))}"
        )
    left = [machine for machine in found if machine.hostname not in without]
    if not left:
        raise BenchfleetError("--without leaves no machine")
    return left


def tasks(
    bench: Bench, plan: Assignment, records: Iterable[CellRecord]
) -> dict[str, dict[str, Any]]:
    """What each machine is told, by its name; a machine with nothing to do is told that."""
    paths = {
        named.cell.fingerprint: named.path
        for named in with_paths([one.cell for one in plan.given], list(records))
    }
    phases = {phase.name: phase for phase in bench.campaign.phases}
    found = {}
    for host in plan.slots:
        mine = [one for one in plan.given if one.host == host]
        names = list(dict.fromkeys(one.cell.phase for one in mine if one.cell.phase))
        found[host] = {
            "machine": host,
            "phase": ", ".join(names),
            "campaign": bench.campaign.name,
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
                }
                for one in mine
            ],
            "cells": [one.cell.fingerprint for one in mine],
        }
    return found


def _write(folder: Path, told: Mapping[str, Any]) -> dict[str, Path]:
    """A file for each machine, each in place of an older one; those of machines that are not in
    the plan any more are taken away."""
    folder.mkdir(parents=True, exist_ok=True)
    campaigns = {one["campaign"] for one in told.values()}
    files = {host: folder / tasks_file(host) for host in told}
    for old in folder.glob(tasks_file("*")):
        if old not in files.values() and _campaign_of(old) in campaigns:
            old.unlink()
    for host, file in files.items():
        draft = file.with_name(f".{file.name}-{os.getpid()}")
        draft.write_text(json.dumps(told[host], indent=2) + "\n", "utf-8")
        os.replace(draft, file)
    return files


def _campaign_of(file: Path) -> str:
    try:
        return str(json.loads(file.read_text("utf-8"))["campaign"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def lines(bench: Bench, plan: Assignment, files: Mapping[str, Path]) -> Iterator[str]:
    """The plan for a person."""
    yield (
        f"{bench.campaign.name}: {len(plan.given)} cells on {len(plan.slots)} machines"
        + (f" · {plan.done} done" if plan.done else "")
        + (f" · {plan.running} running" if plan.running else "")
        + (f" · {len(plan.nowhere)} fit nowhere" if plan.nowhere else "")
    )
    yield headline(plan)
    yield ""
    yield from text(plan)
    yield ""
    for host, file in files.items():
        mine = [one for one in plan.given if one.host == host]
        yield f"{host}: {len(mine)} cells{_forms(mine)} → {shown_path(file.absolute())}"
    for name, (begin, end) in plan.phases.items():
        if name:
            yield f"phase {name}: from {duration(begin)} to {duration(end)}"
    for place, (cell, why) in enumerate(plan.nowhere.items()):
        if place == _SHOWN:
            yield f"… and {len(plan.nowhere) - _SHOWN} more fit nowhere; --json names them"
            break
        yield f"fits nowhere: {cell}: {why}"
    if plan.given:
        known = ", ".join(f"{count} by {_BY[name]}" for name, count in plan.times.items())
        yield f"times: {known}"
    for note in plan.notes:
        yield f"note: {note}"


_BY = {
    "ran there": "what ran there",
    "ran elsewhere": "what ran elsewhere, scaled by measured speed",
    "speed and size": "measured speed and the model's size (a guess)",
    "speed alone": "measured speed alone (a minute on a middling machine: a guess)",
}


def _forms(mine: Iterable[Given]) -> str:
    variants = [one for one in mine if one.cell is not one.declared]
    if not variants:
        return ""
    names = ", ".join(dict.fromkeys(one.cell.model.name for one in variants))
    return f", {len(variants)} with variants ({names})"


def as_json(bench: Bench, plan: Assignment, files: Mapping[str, Path]) -> dict[str, Any]:
    """The plan as JSON values; times are seconds from its beginning."""
    return {
        "campaign": bench.campaign.name,
        "makespan": plan.makespan,
        "lower_bound": plan.bound,
        "gap": plan.gap,
        "sequential": plan.sequential,
        "found_by": plan.by,
        "times_known_by": dict(plan.times),
        "phases": {name: {"begin": b, "end": e} for name, (b, e) in plan.phases.items()},
        "done": plan.done,
        "running": plan.running,
        "machines": {
            host: {
                "slots": slots,
                "cells": sum(one.host == host for one in plan.given),
                "ends": max((one.end for one in plan.given if one.host == host), default=0.0),
                "file": str(files[host]),
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
            for one in plan.given
        ],
        "nowhere": dict(plan.nowhere),
        "notes": list(plan.notes),
    }


def _rate(text: str) -> float:
    try:
        return float(size(re.sub(r" ?/ ?s$", "", text)))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate; write 100MB/s") from None


def _effort(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no effort; write a number up to 1000")
    return found
