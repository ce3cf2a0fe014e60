"""Scores against context length, where the subsets of a benchmark are lengths."""

from __future__ import annotations

from benchfleet.reports.labels import isolated
from benchfleet.reports.tables import Comparison

from .base import Chart, best_first, labels
from .lines import line_chart, point


def lengths(comparison: Comparison) -> Chart | None:
    """The chart, or None where no benchmark has results of two lengths."""
    names = labels(comparison)
    rows = [
        {
            "name": names[entry.model, entry.config],
            "panel": isolated(entry.family),
            "length": entry.length,
            **point(comparison, entry, entry.mean),
        }
        for entry in comparison.entries
        if entry.length is not None and entry.mean is not None
    ]
    return line_chart(
        rows,
        [names[one] for one in best_first(comparison)],
        kind="length",
        title="Score against context length",
        x="length",
        axis="context length (log scale)",
        scale="log",
    )
