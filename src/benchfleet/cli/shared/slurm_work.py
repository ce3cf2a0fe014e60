"""The cells of a campaign that pilots could run, and its pilots' name in Slurm."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.cell import Cell
from benchfleet.domain.state import FINAL_STATES
from benchfleet.runner.scheduler.duration_model import DurationModel
from benchfleet.runner.worker_options import END_RESERVE_S
from benchfleet.slurm.demand import Work
from benchfleet.slurm.script import job_name
from benchfleet.study import Study


def pilots_name(study: Study) -> str:
    """The name of the campaign's pilots in Slurm."""
    return job_name(study.campaign.name, study.home.address, study.layout.root)


def work_of(study: Study, cells: Sequence[Cell], limit_s: float | None = None) -> Work:
    """What is left of these cells for pilots that run `limit_s` seconds; None: without a limit."""
    records = {record.fingerprint: record for record in study.records(cells)}
    phases = {one.phase.name: one.state for one in study.phases(cells, records.values())}
    times = DurationModel(
        (cell, record.outcome)
        for cell in cells
        if (record := records.get(cell.fingerprint)) is not None
        if record.state == "success" and record.outcome is not None
    )
    waiting = running = blocked = final = 0
    too_long = []
    for cell in cells:
        record = records.get(cell.fingerprint)
        state = record.state if record else "pending"
        if state == "running":
            running += 1
        elif state in FINAL_STATES:
            final += 1
        elif phases.get(cell.phase) == "held":
            blocked += 1
        elif phases.get(cell.phase) != "closed":
            expected = times.expected(cell)
            needed = expected.seconds + times.load(cell.model.name) if expected else 0.0
            if limit_s is not None and needed > limit_s - END_RESERVE_S:
                too_long.append(cell.id)
            else:
                waiting += 1
    if blocked and not (waiting or running):
        waiting, blocked = 1, blocked - 1  # a worker has to evaluate the gate
    return Work(
        waiting=waiting,
        running=running,
        ended=final,
        too_long=tuple(too_long),
        blocked=blocked,
    )
