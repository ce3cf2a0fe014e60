"""The slots of a campaign's runners, and what each does now."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.views.phases import awaited_gates
from benchfleet.domain.event import Event
from benchfleet.domain.slots import device_names, host_in
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress, aged, eta_of


@dataclass(frozen=True, kw_only=True)
class Slot:
    """What one slot does now."""

    runner: str
    host: str
    devices: str  # without the host
    stage: str  # starting, idle, load, benchmark; running where its runner has not reported yet
    row: Row | None  # its cell
    fingerprint: str  # of the cell, or of its part; "" while it has none
    done: int
    total: int
    seconds: float
    tokens_per_second: float | None
    memory: int | None
    memory_total: int | None
    age: float  # seconds since it was reported
    silent: float  # seconds since its last sign of life, once the lease has expired; else 0
    idle_reason: str  # "" while it works

    @property
    def share(self) -> float:
        """The completed share of its samples, from 0 to 1."""
        return min(self.done / self.total, 1.0) if self.row and self.total else 0.0

    @property
    def share_of_cell(self) -> float:
        """The same of its whole cell, of which it may run one part."""
        return self.share / max(1, self.row.parts) if self.row else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds that its samples should still take; None before enough samples."""
        if not self.row or not self.total or not self.done or self.stage != "benchmark":
            return None
        return self.seconds * (self.total - self.done) / self.done


def reports_of(model: ReadModel) -> list[WorkerProgress]:
    """What runners that have not ended reported, with its age now; the lock of the model is
    held."""
    reports = aged(model.progress, time.monotonic() - model.progress_at)
    return [report for report in reports if report.runner not in model.fleet.ended]


def seconds_left(model: ReadModel) -> float | None:
    """Seconds that the runs should still take; None where none runs or knows, or all are silent.
    The lock of the model is held."""
    held_cells = [(name, row.runner) for name, row in model.running.items()]
    parts = model.split_cells.parts.items()
    held_cells += [(name, part.runner) for name, part in parts if part.state == "running"]
    at_work = {runner for name, runner in held_cells if not model.lease_silence(name)}
    return eta_of(reports_of(model), at_work)


def slots_of(model: ReadModel) -> list[Slot]:
    """Every slot of the runners that have not ended, and running cells that no report has; of
    runners that were killed, only those with a cell. The lock of the model is held."""
    slots: list[Slot] = []
    reported: set[str] = set()
    held_cells = {(row.runner, row.path): (row.fingerprint, row) for row in model.running.values()}
    for path, (name, part) in model.split_cells.by_path.items():
        if (whole := model.running.get(part.whole)) is not None and part.state == "running":
            held_cells[part.runner, path] = name, whole
    for report in reports_of(model):
        for slot in report.slots:
            name, row = held_cells.get((report.runner, slot.cell), ("", None))
            if row is None and report.runner in model.fleet.killed:
                continue
            reported.add(name)
            slots.append(_slot(model, report.runner, slot, name, row, report.age))
    for (runner, path), (name, row) in held_cells.items():
        if name not in reported and not (row.parts and name == row.fingerprint):
            nothing = SlotProgress(devices="", cell=path, stage="running")
            slots.append(_slot(model, runner, nothing, name, row, None))
    return slots


def silence_of(slots: Iterable[Slot]) -> float:
    """Seconds since the last sign of life of those that have a cell; 0 where one is alive."""
    return min((slot.silent for slot in slots if slot.row), default=0.0)


def _slot(
    model: ReadModel,
    runner: str,
    slot: SlotProgress,
    name: str,
    row: Row | None,
    report_age: float | None,
) -> Slot:
    silent = model.lease_silence(name) if row else 0.0
    if silent and report_age is not None:
        silent = report_age
    age = report_age or 0.0
    host, devices = host_in(slot.devices)
    return Slot(
        runner=runner,
        host=host or host_of(model.fleet.runners.get(runner)),
        devices=devices,
        stage=slot.stage if row or slot.stage not in ("load", "benchmark") else "idle",
        row=row,
        fingerprint=name,
        done=slot.done,
        total=slot.total,
        seconds=slot.seconds + age if row and slot.seconds else slot.seconds,
        tokens_per_second=slot.tokens_per_second,
        memory=slot.memory,
        memory_total=slot.memory_total,
        age=age,
        silent=silent,
        idle_reason="" if row else _idle_reason(model, runner, slot.devices),
    )


def _idle_reason(model: ReadModel, runner: str, devices: str) -> str:
    try:
        names = {str(name) for name in device_names(devices)}
    except ValueError:  # an endpoint
        names = set()
    if names & model.fleet.drained.get(runner, set()):
        return "drained"
    waiting = model.counts.get("pending", 0) + model.counts.get("retrying", 0)
    return awaited_gates(model) if waiting else "no cell waits"


def host_of(began: Event | None) -> str:
    """The host of a runner, by the event with which it began; "" where it is not known."""
    return str(began.data.get("host") or began.data.get("machine") or "") if began else ""
