"""``benchfleet slurm status``: the pilots as Slurm tells them, with the cells that they run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from benchfleet.cli.shared import options
from benchfleet.cli.shared.slurm_work import pilots_name, work_of
from benchfleet.cli.text.output import print_json, say
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.domain.slots import BEGAN
from benchfleet.ledger.base import Ledger
from benchfleet.slurm.commands import Pilot, Slurm, SlurmAway, pilot_counts
from benchfleet.slurm.demand import Work
from benchfleet.study import Study

_UNKNOWN = 1  # exit code where the controller does not answer


def main(arguments: argparse.Namespace) -> int:
    """Show what the cluster does for the campaign."""
    study, cells = options.opened(arguments)
    work = work_of(study, cells)
    problem, pilots = "", list[Pilot]()
    try:
        pilots = Slurm().pilots(pilots_name(study))
    except SlurmAway as away:
        problem = str(away)
    running = running_cells(study)
    if arguments.json:
        print_json(_as_json(study, cells, work, pilots, running, problem))
    else:
        say(*_lines(study, cells, work, pilots, running, problem))
    return _UNKNOWN if problem else 0


def running_cells(study: Study) -> dict[str, list[str]]:
    """The paths of the running cells by the batch job whose worker holds them."""

    def read(ledger: Ledger) -> dict[str, list[str]]:
        jobs = {e.data["runner"]: e.data.get("job", "") for e in ledger.events(kinds={BEGAN})}
        cells_of_job: dict[str, list[str]] = {}
        for record in ledger.cells(states=["running"], parts=True):
            if job := jobs.get(record.runner):
                cells_of_job.setdefault(job, []).append(record.path)
        return cells_of_job

    return study.query(read, default={})


def _lines(
    study: Study,
    cells: Sequence[Cell],
    work: Work,
    pilots: Sequence[Pilot],
    running: Mapping[str, Sequence[str]],
    problem: str,
) -> Iterator[str]:
    ended = f"{work.ended} ended" + (f" ({work.failed} failed)" if work.failed else "")
    states = f"{ended} · {work.running} running · {work.waiting + work.blocked} waiting"
    yield f"{study.campaign.name}: {counted(len(cells), 'cell')} · {states}"
    if problem:
        yield f"pilots unknown, not gone: {problem}"
        for job, paths in running.items():
            yield f"  {job}  by the ledger  {', '.join(paths)}"
        return
    queued, running_pilots, ending = pilot_counts(pilots)
    counts = f"{queued} queued, {running_pilots} running" + (f", {ending} ending" if ending else "")
    yield f"{counted(len(pilots), 'pilot')}: {counts}"
    for pilot in pilots:
        time_left = f"{pilot.time_left} left" if pilot.time_left else ""
        reason = f"({pilot.reason})" if pilot.reason else ""
        paths = ", ".join(running.get(pilot.job, ()))
        parts = [pilot.job, pilot.state, pilot.node, time_left, reason, paths]
        yield "  " + "  ".join(filter(None, parts))


def _as_json(
    study: Study,
    cells: Sequence[Cell],
    work: Work,
    pilots: Sequence[Pilot],
    running: Mapping[str, Sequence[str]],
    problem: str,
) -> dict[str, object]:
    return {
        "campaign": study.campaign.name,
        "cells": {
            "total": len(cells),
            "ended": work.ended,
            "failed": work.failed,
            "running": work.running,
            "waiting": work.waiting + work.blocked,
        },
        "pilots": None
        if problem
        else [{**asdict(one), "cells": list(running.get(one.job, ()))} for one in pilots],
        "running": {job: list(paths) for job, paths in running.items()},
        "problem": problem,
    }
