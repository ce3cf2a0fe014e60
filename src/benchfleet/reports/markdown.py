"""A comparison as Markdown, safe to show whatever the names and messages hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from benchfleet.domain.humanize import counted, duration, examples
from benchfleet.domain.plain_text import markdown_text as escaped
from benchfleet.domain.plain_text import one_line

from . import spending, verdicts, wording
from .endings import LEGEND as ENDED
from .grids import Grid, ended, judges, overview, several_answers, suites
from .judging import LEGEND as JUDGES
from .judging import sentences
from .serving import HEADS, ServingPoint, by_series, legend
from .tables import Comparison, Entry
from .wording import OVERVIEW

_MAX_MESSAGE_CHARS = 500
_MAX_CELLS = 20


def render(comparison: Comparison, *, title: str) -> str:
    """The whole report; `title` is the campaign's name."""
    return "\n\n".join(_blocks(comparison, title)) + "\n"


def _serving(points: Sequence[ServingPoint]) -> str:
    """A row for each load point, by model and config."""
    heads = ("model / config", *HEADS)
    rows = [" | ".join(heads), "|".join(["---"] * len(heads))]
    for series, some in by_series(points).items():
        rows += [" | ".join(map(escaped, (series, *one.cells()))) for one in some]
    return "\n".join(f"| {row} |" for row in rows)


def code(text: str) -> str:
    """Text of unknown origin as a code span, fenced by more backticks than it holds."""
    line = one_line(text, _MAX_MESSAGE_CHARS)
    ticks = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    return f"{ticks} {line} {ticks}" if "`" in line else f"{ticks}{line or ' '}{ticks}"


def _blocks(comparison: Comparison, title: str) -> Iterator[str]:
    base = escaped(comparison.baseline)
    yield f"# {escaped(title)}"
    yield f"{wording.counts(comparison)}."
    if comparison.warnings:
        yield "\n".join(f"- **Warning:** {escaped(one)}" for one in comparison.warnings)
    first, more = verdicts.first_and_more(comparison, escaped)
    yield from _beginning(comparison, first, more)
    if comparison.entries:
        yield "## Scores"
        yield _table(comparison, _score)
        yield wording.scores_legend(comparison)
    if comparison.serving:
        yield "## Serving"
        yield _serving(comparison.serving)
        yield legend(comparison.serving)
    if any(entry.difference for entry in comparison.entries):
        yield f"## Differences to {base}"
        yield _table(comparison, wording.difference)
        yield f"{wording.MARKS}."
    if more:
        yield f"## {verdicts.MORE}"
        yield "\n".join(f"- {sentence}" for sentence in more)
    if grid := ended(comparison):
        yield "## How the answers ended"
        yield _grid(grid)
        yield ENDED
    yield from _judges(comparison)
    if grid := several_answers(comparison):
        yield "## Several answers to each question"
        yield _grid(grid)
    if any(entry.density is not None or entry.tokens_per_second for entry in comparison.entries):
        yield "## Density and speed"
        yield _table(comparison, _cost)
    if comparison.failures:
        yield "## Failures"
        yield "\n".join(_failures(comparison))
    if comparison.time:
        yield "## Where the time went"
        yield f"In all: {wording.time_spent(comparison, escaped)}"
        yield _time(comparison)
    if comparison.spent or comparison.rentals:
        yield "## What it took"
        sentences = spending.sentences(spending.total(comparison.spent), comparison.rentals)
        yield f"In all: {' '.join(map(escaped, sentences))}"
    if comparison.spent:
        yield _spent(comparison)
    yield "## How to read the numbers"
    yield wording.METHOD
    if comparison.notes:
        yield "\n".join(f"- {escaped(note)}" for note in comparison.notes)


def _beginning(comparison: Comparison, first: Sequence[str], more: Sequence[str]) -> Iterator[str]:
    """What won, and what sums up many benchmarks."""
    if first:
        yield "## What won"
        yield "\n".join(f"- {sentence}" for sentence in first)
    if more:
        yield verdicts.pointer(more)
    if grid := suites(comparison):
        yield "## Suites"
        yield _grid(grid)
        yield wording.SUITES
    if grid := overview(comparison):
        yield "## Overview"
        yield _grid(grid)
        yield OVERVIEW
        yield verdicts.leads(comparison, escaped)


def _judges(comparison: Comparison) -> Iterator[str]:
    if grid := judges(comparison):
        yield "## Judges"
        yield _grid(grid)
        if lines := list(sentences(comparison.judged)):
            yield "\n".join(f"- {escaped(line)}" for line in lines)
        yield JUDGES


def _grid(grid: Grid) -> str:
    rows = [
        [escaped(group.model), escaped(config), *(escaped(cell.text) for cell in cells)]
        for group in grid.groups
        for config, cells in group.rows.items()
    ]
    return _pipe_table(["model", "config", *map(escaped, grid.head)], rows, names=2)


def _table(comparison: Comparison, render: Callable[[Entry, int], str]) -> str:
    """Model × config rows by benchmark columns; rows of which nothing is shown are left out."""
    decimals = {name: wording.decimals(comparison, name) for name in comparison.benchmarks}
    rows = []
    for model in comparison.models:
        for config in comparison.configs:
            entries = [comparison.entry_at.get((model, config, name)) for name in decimals]
            texts = [
                render(entry, digits) if entry else ""
                for entry, digits in zip(entries, decimals.values(), strict=True)
            ]
            if any(texts):
                filled = [text or wording.UNMEASURED for text in texts]
                rows.append([escaped(model), escaped(config), *filled])
    return _pipe_table(["model", "config", *map(escaped, decimals)], rows, names=2)


def _score(entry: Entry, decimals: int) -> str:
    missing = wording.shortfall(entry)
    return wording.score(entry, decimals) + (f" ({missing})" if missing else "")


def _cost(entry: Entry, decimals: int) -> str:
    density = wording.density(entry)
    cost = (density and f"density {density}", wording.speed(entry))
    return ", ".join(filter(None, cost))


def _failures(comparison: Comparison) -> Iterator[str]:
    for group in comparison.failures:
        what = f"{escaped(group.stage)}: {escaped(group.kind)}"
        yield f"- **{what}** ({counted(len(group.cells), 'cell')}): {code(group.message)}"
        yield f"  - What to do: {escaped(group.way_out)}"
        yield f"  - Cells: {examples(map(code, group.cells), _MAX_CELLS)}"
        yield f"  - What the first one left: {code(group.folder)}"


def _time(comparison: Comparison) -> str:
    stages = list(wording.by_stage(*comparison.time))
    rows = []
    for spent in comparison.time:
        named = wording.by_stage(spent)
        rows.append(
            [
                escaped(spent.model),
                escaped(spent.config),
                *(duration(named.get(stage, 0.0)) for stage in stages),
            ]
        )
    return _pipe_table(["model", "config", *map(escaped, stages)], rows, names=2)


def _spent(comparison: Comparison) -> str:
    columns = spending.columns(comparison.spent)
    rows = [
        [
            escaped(spent.model),
            escaped(spent.config),
            *(escaped(c[n] or wording.UNMEASURED) for c in columns.values()),
        ]
        for n, spent in enumerate(comparison.spent)
    ]
    return _pipe_table(["model", "config", *columns], rows, names=2)


def _pipe_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, names: int) -> str:
    """A pipe table; the first `names` columns to the left, the others to the right."""
    rule = ["---"] * names + ["---:"] * (len(head) - names)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))
