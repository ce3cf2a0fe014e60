"""The cells of a campaign that pilots could run, and its pilots' name in Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchfleet.domain.cell import Cell
from benchfleet.domain.state import FINAL_STATES
from benchfleet.ledger.base import Ledger
from benchfleet.results.samples import earlier_indices
from benchfleet.runner.scheduler.duration_model import DurationModel
from benchfleet.runner.worker_options import END_RESERVE_S
from benchfleet.slurm.demand import Work
from benchfleet.slurm.script import job_name
from benchfleet.study import Study


def pilots_name(study: Study) -> str:
    """The name of the campaign's pilots in Slurm."""
    ledger = study.home.address
    if ledger.startswith("git+"):  # its options change no repository
        ledger = ledger.partition("?")[0]
    return job_name(study.campaign.name, ledger, study.layout.root)


def backoff_file(study: Study) -> Path:
    """Where `SubmitBackoff` keeps its state between two calls."""
    return study.layout.slurm / f"{pilots_name(study)}.json"


def last_event(study: Study) -> int:
    """The number of the ledger's newest event; 0 without a ledger."""
    return study.query(lambda ledger: ledger.last_event(), default=0)


def cell_ended(study: Study, since: int) -> bool:
    """Whether a cell has ended after this event of the ledger. It counts although `retry` made it
    ``pending`` again, or although the campaign no longer has it."""

    def read(ledger: Ledger) -> bool:
        finished = ledger.events(since=since, kinds={"finished"})
        return any(event.data["outcome"].get("retry_in") is None for event in finished)

    return study.query(read, default=False)


def recorded_samples(study: Study, cells: Sequence[Cell]) -> int:
    """How many samples are recorded of cells without a result, by all their attempts together; what
    an attempt took over from an earlier one counts once."""
    folders = (study.layout.attempts_of(str(cell.fingerprint)) for cell in cells)
    return sum(len(earlier_indices(folder)) for folder in folders)


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
    waiting = running = blocked = final = failed = 0
    needed_s = 0.0
    too_long = []
    for cell in cells:
        record = records.get(cell.fingerprint)
        state = record.state if record else "pending"
        if state == "running":
            running += 1
        elif state in FINAL_STATES:
            final += 1
            failed += state in ("partial", "failed")
        elif phases.get(cell.phase) == "held":
            blocked += 1
        elif phases.get(cell.phase) != "closed":
            expected = times.expected(cell)
            needed = expected.seconds + times.load(cell.model.name) if expected else 0.0
            if limit_s is not None and needed > limit_s - END_RESERVE_S:
                too_long.append(cell.id)
                needed_s = max(needed_s, needed + END_RESERVE_S)
            else:
                waiting += 1
    if blocked and not (waiting or running):
        waiting, blocked = 1, blocked - 1  # a worker has to evaluate the gate
    return Work(
        waiting=waiting,
        running=running,
        ended=final,
        failed=failed,
        too_long=tuple(too_long),
        needed_s=needed_s,
        blocked=blocked,
    )
