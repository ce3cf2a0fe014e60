"""Scores of a series of checkpoints against their training steps."""

from __future__ import annotations

from benchfleet.reports.labels import isolated
from benchfleet.reports.tables import Comparison

from .base import Chart
from .lines import line_chart, point


def steps(comparison: Comparison) -> Chart | None:
    """The chart, or None where no benchmark has results of two checkpoints of a series."""
    entries = [one for one in comparison.entries if one.step is not None and one.mean is not None]
    several_configs = len({entry.config for entry in entries}) > 1
    rows, best = [], dict[str, float]()
    for entry in entries:
        mean = entry.mean or 0.0
        name = isolated(entry.series)
        if several_configs:
            name += f" / {isolated(entry.config)}"
        best[name] = max(mean, best.get(name, mean))
        rows.append(
            {
                "name": name,
                "panel": isolated(entry.benchmark),
                "step": entry.step,
                **point(comparison, entry, mean),
            }
        )
    return line_chart(
        rows,
        sorted(best, key=lambda name: -best[name]),
        kind="steps",
        title="Score against training step",
        x="step",
        axis="training step",
        scale="linear",
    )
