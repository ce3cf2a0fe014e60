"""Write a result of another harness as a sealed result of its cell."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.benchmarks.lm_eval.score import headline_key
from benchfleet.compat.import_cells import sealed_outcome
from benchfleet.domain.attempt import Claim, Outcome
from benchfleet.domain.averages import BOOTSTRAP_STDERR
from benchfleet.domain.cell import Cell
from benchfleet.results.summary import is_mean
from benchfleet.results.write import AttemptFolder, Verdict

from .result import ForeignResult, UnreadableResult


def seal(folder: AttemptFolder, claim: Claim, cell: Cell, result: ForeignResult) -> Outcome:
    """Write it to the folder of an attempt."""
    verdict = verdict_of(cell, result)
    if result.samples:
        lines = "".join(json.dumps(record) + "\n" for record in result.samples)
        folder.record(lines.encode())
    folder.log.write_bytes(f"imported from {result.file}\n".encode())
    return sealed_outcome(folder, claim, cell, verdict)


def verdict_of(cell: Cell, result: ForeignResult) -> Verdict:
    """Its score on the cell's scale. Raises UnreadableResult where it has none."""
    factor = benchmark_class(cell.workload.benchmark).scale
    headline, overall = "overall_score", result.overall
    per_sample, parsed = [*result.per_sample.get(headline, ())], [*result.parsed.get(headline, ())]
    metrics, error = dict(result.metrics), None
    if overall is None:
        metric = cell.workload.params.get("metric") or result.headline
        key = headline_key(metrics, result.higher_is_better, metric)
        if key is None:
            names = ", ".join(metrics) or "none"
            expected = f" {metric!r}" if metric else ""
            raise UnreadableResult(f"{result.name} has no metric{expected}; it has {names}")
        if not math.isfinite(metrics[key]):
            raise UnreadableResult(f"the value of {key} in {result.name} is {metrics[key]}")
        sign = -1 if result.higher_is_better.get(key.partition(",")[0]) is False else 1
        parsed = [*result.parsed.get(key, ())]
        headline, overall = key.removesuffix(",none"), metrics[key] * factor * sign
        values = [value * factor * sign for value in result.per_sample.get(key, ())]
        per_sample = values if len(values) == len(result.samples) else []
        error = result.errors.get(key)
        metrics = {
            name.removesuffix(",none"): value * factor
            for name, value in metrics.items()
            if math.isfinite(value)
        }
    summary: dict[str, Any] = {"metric": headline, "origin": "imported", "harness": result.harness}
    summary |= result.summary
    if error is not None and result.samples and not is_mean(overall, per_sample):
        summary[BOOTSTRAP_STDERR] = error * factor
    return Verdict(
        score={
            "overall": overall,
            "per_sample": per_sample,
            "tasks": metrics,
            "summary": summary,
            "parsed": parsed if len(parsed) == len(result.samples) else [],
        },
        seconds={} if result.seconds is None else {"benchmark": result.seconds},
        provenance={
            "origin": "imported",
            "imported_from": str(Path(result.file).resolve()),
            "harness": result.harness,
            "settings": dict(result.settings),
        },
    )
