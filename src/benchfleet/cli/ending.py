"""What a person reads when a run ends: the comparison, what to do next, and three paths."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from benchfleet.bench import Bench
from benchfleet.cli.words import printable
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.reports import markdown
from benchfleet.reports.tables import Comparison, compare
from benchfleet.results.read import sample_scores
from benchfleet.runner.loop import RunEnd


def compared(
    bench: Bench,
    cells: Sequence[Cell],
    records: Sequence[CellRecord],
    baseline: str | None = None,
) -> Comparison:
    """The comparison of a campaign's cells, with the samples of its results folder."""
    return compare(
        records, cells, lambda record: sample_scores(bench.layout.published(record.path)), baseline
    )


def show(comparison: Comparison, title: str, stream: TextIO = sys.stdout) -> None:
    """Print the comparison; a pipe gets 100 columns."""
    from rich.console import Console

    from benchfleet.reports.terminal import ComparisonView

    width = None if stream.isatty() else 100
    Console(file=stream, width=width, highlight=False).print(
        ComparisonView(comparison=comparison, title=title)
    )


def write_report(bench: Bench, comparison: Comparison) -> None:
    """Write the report as Markdown into the campaign's folder."""
    text = markdown.render(comparison, title=bench.campaign.name)
    bench.layout.report.write_text(text, encoding="utf-8")


def show_end(bench: Bench, comparison: Comparison, end: RunEnd) -> None:
    """Print what a run ended with; a person who reads only this knows what to do next."""
    counts = comparison.counts
    if not end.interrupted and not end.broken and end.progress.reused == counts["total"]:
        print(printable(f"{bench.campaign.name}: every cell is done already; nothing was run"))
    print()
    show(comparison, bench.campaign.name)
    print()
    for cell, why in end.impossible:
        print(printable(f"cannot run here  {cell.id}: {why}"))
    if end.broken:
        print(printable(f"ended early: {end.broken}"))
    again = shlex.quote(str(_shown(bench.campaign.file)))
    if counts["failed"] or counts["partial"]:
        print(f"try the failed ones again: benchfleet retry {again} && benchfleet run {again}")
    if end.interrupted:
        print(f"nothing is lost; go on with: benchfleet run {again}")
    print(printable(f"results  {_shown(bench.layout.root)}"))
    print(printable(f"report   {_shown(bench.layout.report)}"))
    print(printable(f"summary  {_shown(bench.layout.summary)}"))


def _shown(path: Path) -> Path:
    """The path as seen from here, where it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
