"""Gates on a metric that no cell of their phase reports, found before anything runs."""

from __future__ import annotations

from collections.abc import Iterable

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.cell import Cell
from benchfleet.domain.gate import STANDARD_METRICS, gate_metrics
from benchfleet.domain.question_draws import is_draw_metric
from benchfleet.hints import hint
from benchfleet.models.base import adapter_class

from .entry import Entry


def check_gate_metrics(gate: Entry, cells: Iterable[Cell]) -> None:
    """Note each metric of the gate that none of these cells reports. Scripts and functions say
    only in a run what they report."""
    pairs = {(cell.model.adapter, cell.workload.benchmark) for cell in cells}
    reported = set(STANDARD_METRICS)
    for adapter, benchmark in pairs:
        own = benchmark_class(benchmark).reports
        needs_model = benchmark_class(benchmark).needs_model
        measures = adapter_class(adapter).measures if needs_model else frozenset()
        if own is None or measures is None:
            return
        reported |= own | measures
    draws = {name for name in gate_metrics(gate.text()) if is_draw_metric(name)}
    for name in sorted(gate_metrics(gate.text()) - reported - draws):
        gate.wrong(f"no cell of this phase reports {name!r}; {hint(name, sorted(reported))}")
