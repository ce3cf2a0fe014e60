"""Gates on a metric that no cell of their phase reports, or on cells that it does not have, found
before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.cell import Cell
from benchfleet.domain.gate import STANDARD_METRICS, cell_axes, gate_choices, gate_metrics
from benchfleet.domain.name_patterns import matches
from benchfleet.domain.question_draws import is_draw_metric
from benchfleet.hints import hint
from benchfleet.models.base import adapter_class

from .entry import Entry
from .rules import SINGULAR


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


def check_gate_choices(gate: Entry, cells: Iterable[Cell], open_axes: Collection[str]) -> None:
    """Note each function of the gate that matches none of these cells, and never will: on
    `open_axes` names may come later."""
    names = [cell_axes(cell) for cell in cells]
    for text, choice in gate_choices(gate.text()):
        patterns = {axis: some for axis, some in choice.items() if axis not in open_axes}
        if any(all(matches(p, one[axis]) for axis, p in patterns.items()) for one in names):
            continue
        why = "each name is known, but not together"
        for axis, some in patterns.items():
            known_names = list(dict.fromkeys(one[axis] for one in names if one[axis]))
            if not any(matches(some, one[axis]) for one in names):
                name = ",".join(some)
                why = f"no {SINGULAR[axis]} matches {name!r}; {hint(name, known_names)}"
                break
        gate.wrong(f"{text} matches no cell of this phase: {why}")
