"""``execution_summary.json`` (cells, counts, timing, devices, failures); each host's summary."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import benchfleet
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.names import path_part
from benchfleet.domain.state import FINAL_STATES
from benchfleet.ledger.history import counts
from benchfleet.results.disk import write_atomically
from benchfleet.results.formats import pretty
from benchfleet.runner.run_end import RunEnd
from benchfleet.study import Study


def summarised(
    study: Study, cells: Sequence[Cell], records: Sequence[CellRecord], end: RunEnd
) -> dict[str, Any]:
    """The summary of a campaign at the end of a run; devices and failures are those of all its
    runs in the ledger."""
    records = study.race().as_skipped(records)
    states = counts(records, total=len(cells))
    return {
        "campaign": study.campaign.name,
        "benchfleet": benchfleet.__version__,
        "results": str(study.layout.root),
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "execution_time": end.seconds,
        "ran": end.ran,
        "interrupted": end.interrupted,
        "broken": end.broken,
        "counts": {**states, "reused": end.progress.reused},
        "completeness": states["success"] / states["total"] if states["total"] else 1.0,
        **({"phases": _phases(study, cells, records)} if study.campaign.phases else {}),
        "cells": [_cell(record) for record in records],
        "devices": _devices(records),
        "used": study.bill(cells).to_dict(),
        "rentals": [one.to_dict() for one in study.rental_costs()],
        "unsent": end.unsent,
        "failures": [
            {
                "cell": record.path,
                "state": record.state,
                "attempts": record.attempt,
                "why": record.outcome.why,
                **record.outcome.reason.to_dict(),
            }
            for record in records
            if record.state != "success" and record.outcome and record.outcome.reason
        ],
        "impossible": [{"cell": cell.id, "reason": why} for cell, why in end.impossible],
    }


def _cell(record: CellRecord) -> dict[str, Any]:
    """One cell with its headline metric."""
    outcome = record.outcome
    entry: dict[str, Any] = {"cell": record.path, "state": record.state}
    if outcome is None:
        return entry
    headline = ("overall_score", "stderr", "samples")
    metrics = {name: outcome.metrics[name] for name in headline if name in outcome.metrics}
    took = sum(outcome.seconds.values())
    return {**entry, **metrics, "seconds": took, "host": outcome.host, "device": outcome.device}


def _devices(records: Sequence[CellRecord]) -> dict[str, dict[str, float]]:
    """The use of each device by the attempts that succeeded: cells, seconds of each stage, and for
    GPUs hours, energy and the peak of memory."""
    devices: dict[str, dict[str, float]] = {}
    for record in records:
        if (outcome := record.outcome) is None or record.state != "success":
            continue
        use = devices.setdefault(f"{outcome.host} {outcome.device}".strip(), {"cells": 0})
        added = {f"{stage}_seconds": seconds for stage, seconds in outcome.seconds.items()}
        if (usage := outcome.usage) is not None and usage.gpus:
            added["gpu_hours"] = usage.seconds * usage.gpus / 3600
            added |= {} if usage.joules is None else {"energy_joules": usage.joules}
            peak = max(use.get("gpu_memory_bytes", 0), usage.gpu_memory)
            use |= {"gpu_memory_bytes": peak} if peak else {}
        for name, amount in {"cells": 1, **added}.items():
            use[name] = use.get(name, 0) + amount
    return devices


def write_host_summary(study: Study, end: RunEnd) -> None:
    """Write ``<hostname>_summary.json``: what became of the cells that ended on this host."""
    run = {
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "execution_time": end.seconds,
        "ran": end.ran,
        "interrupted": end.interrupted,
    }
    _write_host_summary(study, study.host, {**run, "results": _ended(study).get(study.host, [])})


def write_summaries_of_others(study: Study) -> None:
    """Write the same for every other host, of what the ledger knows, and all hosts together into
    ``combined_results.json``."""
    combined = {}
    for host, results in sorted(_ended(study).items()):
        try:
            name = path_part(host)
        except ValueError:  # any writer of the ledger could choose this name
            continue
        if host != study.host:
            _write_host_summary(study, name, {"results": results})
        combined[study.layout.host_summary(name).name] = _host_summary(
            study, name, {"results": results}
        )
    write_atomically(study.layout.combined, pretty(combined))


def _ended(study: Study) -> dict[str, list[dict[str, Any]]]:
    """What became of the cells that ended, by host."""
    phases = {str(cell.fingerprint): cell.phase for cell in study.cells()}
    ended: dict[str, list[dict[str, Any]]] = {}
    none: list[CellRecord] = []
    records = study.query(lambda ledger: list(ledger.cells(states=FINAL_STATES)), default=none)
    for record in records:
        if (outcome := record.outcome) is not None:
            entry = {
                "task": record.id,
                "phase": phases.get(record.fingerprint, ""),
                "success": record.state == "success",
                "state": record.state,
                "result": record.path if record.state == "success" else "",
                "metrics": dict(outcome.metrics),
                "seconds": dict(outcome.seconds),
                "device": outcome.device,
                "why": outcome.why,
            }
            ended.setdefault(outcome.host, []).append(entry)
    return ended


def _write_host_summary(study: Study, host: str, more: dict[str, Any]) -> None:
    write_atomically(study.layout.host_summary(host), pretty(_host_summary(study, host, more)))


def _host_summary(study: Study, host: str, more: dict[str, Any]) -> dict[str, Any]:
    phases = dict.fromkeys(one["phase"] for one in more["results"] if one["phase"])
    return {
        "machine": host,
        "phase": ", ".join(phases),
        "campaign": study.campaign.name,
        "ledger": study.ledger_text,
        "benchfleet": benchfleet.__version__,
        **more,
    }


def _phases(
    study: Study, cells: Sequence[Cell], records: Sequence[CellRecord]
) -> list[dict[str, Any]]:
    return [
        {
            "phase": one.phase.name,
            "state": one.state,
            "gate": one.phase.gate,
            "completeness": one.states.get("success", 0) / one.total if one.total else 1.0,
            "why": str(one.decision or ""),
        }
        for one in study.phases(cells, records)
    ]


def write_summary(study: Study, summary: dict[str, Any]) -> None:
    """Write ``execution_summary.json``; a run that ran nothing keeps the previous one, unless the
    new one has an event number (``last_event``)."""
    if summary["ran"] or "last_event" in summary or not study.layout.summary.exists():
        write_atomically(study.layout.summary, pretty(summary))
