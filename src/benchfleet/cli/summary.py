"""``execution_summary.json``: counts, timing, device use, failures and completeness of a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import benchfleet
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.state import STATES
from benchfleet.results.write import write_atomically
from benchfleet.runner.loop import RunEnd
from benchfleet.wiring import Bench


def read_records(bench: Bench, cells: Sequence[Cell]) -> list[CellRecord]:
    """The cells as the ledger has them; empty where nothing was run yet."""
    ledger = bench.existing_ledger()
    if ledger is None:
        return []
    try:
        return list(ledger.cells(among={cell.fingerprint for cell in cells}))
    finally:
        ledger.close()


def write_summary(bench: Bench, records: Sequence[CellRecord], end: RunEnd) -> dict[str, Any]:
    """Write the summary of a run that ended into the campaign's folder, and return it."""
    counts = dict.fromkeys(("total", *STATES), 0)
    for record in records:
        counts["total"] += 1
        counts[record.state] += 1
    summary = {
        "campaign": bench.campaign.name,
        "benchfleet": benchfleet.__version__,
        "results": str(bench.layout.root),
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "execution_time": end.seconds,
        "interrupted": end.interrupted,
        "broken": end.broken,
        "counts": {**counts, "reused": end.progress.reused},
        "completeness": counts["success"] / counts["total"] if counts["total"] else 1.0,
        "devices": {name: dict(use) for name, use in end.devices.items()},
        "failures": [
            {
                "cell": record.path,
                "state": record.state,
                "attempts": record.attempt,
                **(record.outcome.failure.to_dict()),
            }
            for record in records
            if record.state != "success" and record.outcome and record.outcome.failure
        ],
        "impossible": [{"cell": cell.id, "reason": why} for cell, why in end.impossible],
    }
    write_atomically(bench.layout.summary, summary)
    return summary
