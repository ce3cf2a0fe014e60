"""A comparison as something that rich prints, from 80 columns up, narrower in a pinch.

Everything goes through `rich.text.Text`, so that no name or message is read as markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from benchfleet.domain.humanize import counted, examples
from benchfleet.domain.plain_text import one_line

from . import spending, verdicts, wording
from .endings import LEGEND as ENDED
from .grids import Grid, ended, judges, overview, several_answers, suites
from .judging import LEGEND as JUDGES
from .judging import sentences as judge_sentences
from .serving import HEADS, ServingPoint
from .tables import Comparison, Entry

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text

WHOLE_WIDTH = 10_000  # columns; so wide that nothing is folded
_MAX_NAME_WIDTH = 24
_COLUMN_PADDING = 3  # of a column, both sides together, and what parts it from the next
_MAX_CELLS = 4
_MAX_MESSAGE_CHARS = 300
_MAX_ENTRIES = 1_000  # in a terminal's tables, some 4,000 lines; the first model is always there
_STYLES = {wording.HIGHER: "green", wording.LOWER: "red", wording.NOT_SURE: "dim"}


@dataclass(frozen=True, kw_only=True)
class ComparisonView:
    """Print it with `rich.console.Console.print`; it fits itself to the width it is given."""

    comparison: Comparison
    title: str  # the campaign's name
    results: Path = Path()  # the campaign's folder, as paths below it are shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        comparison = self.comparison
        yield Text(one_line(self.title), style="bold").append(
            f"   {wording.counts(comparison)}", style="not bold"
        )
        for warning in comparison.warnings:
            yield Text(f"warning: {one_line(warning)}", style="yellow")
        first, more = verdicts.first_and_more(comparison, one_line)
        yield from _beginning(comparison, [*first, verdicts.pointer(more)] if more else first)
        if comparison.entries:
            yield Text()
            models = _displayed_models(comparison, options.max_width)
            for model in models:
                yield from _tables(comparison, model, options.max_width)
            if more_models := len(comparison.models) - len(models):
                yield Text(
                    f"The tables of {counted(more_models, 'more model')} are left out: `benchfleet "
                    "report --output FILE` has all, and `--only models=NAME` those of one.",
                    style="dim",
                )
        if grid := ended(comparison):
            yield _grid(grid, "How the answers ended")
            yield Text(ENDED, style="dim")
        yield from _judges(comparison)
        if grid := several_answers(comparison):
            yield _grid(grid, "Several answers to each question")
        if comparison.serving:
            yield _serving(comparison.serving)
        if comparison.winners:
            yield Text(wording.legend(comparison, one_line), style="dim")
        if more:
            yield from _section(verdicts.MORE, ((2, sentence) for sentence in more))
        if comparison.failures:
            yield from _section("Failures", _failures(comparison, self.results))
        time = wording.time_spent(comparison, one_line)
        if time:
            yield from _section("Where the time went", [(2, time)])
        bill = spending.total(comparison.spent)
        if bill.gpu_seconds or bill.costs or comparison.rentals:
            lines = spending.sentences(bill, comparison.rentals)
            yield from _section("What it took", ((2, line) for line in lines))
        if comparison.notes:
            notes = map(one_line, comparison.notes)
            yield from _section("Notes", ((2, note) for note in notes))


def _beginning(comparison: Comparison, sentences: Sequence[str]) -> Iterator[RenderableType]:
    """What won, and what sums up many benchmarks."""
    from rich.text import Text

    if sentences:
        yield from _section("What won", ((2, sentence) for sentence in sentences))
    if grid := suites(comparison):
        yield Text()
        yield _grid(grid, "Suites")
    if grid := overview(comparison):
        yield Text()
        yield _grid(grid, "Overview")
        yield Text(wording.OVERVIEW, style="dim")
        yield Text(verdicts.leads(comparison, one_line))


def _judges(comparison: Comparison) -> Iterator[RenderableType]:
    from rich.text import Text

    if grid := judges(comparison):
        yield _grid(grid, "Judges")
        for sentence in judge_sentences(comparison.judged):
            yield Text(one_line(sentence))
        yield Text(JUDGES, style="dim")


def _serving(points: Sequence[ServingPoint]) -> Table:
    """A row for each load point."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text("Serving"))
    for head in ("model / config", *HEADS):
        table.add_column(Text(head), overflow="fold")
    for point in points:
        cells = map(one_line, (point.series, *point.cells()))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _grid(grid: Grid, title: str) -> Table:
    """A table with a row for each model and config."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    names = ("model", "config")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text(title))
    table.title_justify, table.title_style = "left", "bold"
    for name in (*names, *grid.head):
        justify = "left" if name in names else "right"
        table.add_column(Text(name), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for group in grid.groups:
        for config, cells in group.rows.items():
            labels = map(one_line, (group.model, config))
            texts = (Text(cell.text, style=_STYLES.get(cell.text[-1:], "")) for cell in cells)
            table.add_row(*map(Text, labels), *texts)
    return table


def _displayed_models(comparison: Comparison, width: int) -> Sequence[str]:
    """The models whose tables a person may read here, in the campaign's order; of a file, all."""
    if width >= WHOLE_WIDTH:
        return comparison.models
    counts = Counter(entry.model for entry in comparison.entries)
    totals = accumulate(counts[model] for model in comparison.models)
    fitting = sum(total <= _MAX_ENTRIES for total in totals)
    return comparison.models[: max(fitting, 1)]


def _tables(comparison: Comparison, model: str, width: int) -> Iterator[Table]:
    """The configs of a model by benchmark, in as many tables as the width makes necessary."""
    from rich.cells import cell_len

    columns = {}
    for name in comparison.benchmarks:
        column = _column(comparison, model, name)
        if column:
            columns[name] = column
    names, whole = [one_line(config) for config in comparison.configs], width >= WHOLE_WIDTH
    available = width - min(_MAX_NAME_WIDTH, max(map(cell_len, [*names, "baseline"])))
    room, block = available, list[str]()
    for name, column in columns.items():
        lines = [line for lines in column.values() for line in lines]
        heading = min(_MAX_NAME_WIDTH, cell_len(one_line(name)))
        column_width = _COLUMN_PADDING + max(heading, *map(cell_len, lines), 0)
        if block and column_width > room:
            yield _table(comparison, model, {one: columns[one] for one in block}, whole=whole)
            room, block = available, []
        block.append(name)
        room -= column_width
    yield _table(comparison, model, {one: columns[one] for one in block}, whole=whole)


def _column(comparison: Comparison, model: str, benchmark: str) -> dict[str, list[str]]:
    """The lines of each config's cell; empty where the matrix leaves the model out."""
    decimals = wording.decimals(comparison, benchmark)
    lines = {}
    for config in comparison.configs:
        entry = comparison.entry_at.get((model, config, benchmark))
        if entry is not None:
            lines[config] = _lines(entry, decimals)
    return lines


def _lines(entry: Entry, decimals: int) -> list[str]:
    cost = (wording.density(entry), wording.speed(entry))
    lines = [
        wording.score(entry, decimals),
        wording.difference(entry, decimals),
        wording.shortfall(entry),
        " · ".join(filter(None, cost)),
    ]
    return [line for line in lines if line]


def _table(
    comparison: Comparison,
    model: str,
    columns: Mapping[str, Mapping[str, Sequence[str]]],
    *,
    whole: bool,
) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        title=Text(one_line(model)),
        title_justify="left",
        title_style="bold",
        leading=1,
        pad_edge=False,
    )
    width = None if whole else _MAX_NAME_WIDTH
    table.add_column(Text("config"), max_width=width, overflow="fold")
    for name in columns:
        table.add_column(Text(one_line(name)), overflow="fold")
    for config in comparison.configs:
        cells = [column.get(config, ()) for column in columns.values()]
        if any(cells):
            label = Text(one_line(config), style="bold")
            if config == comparison.baseline:
                label.append("\nbaseline", style="not bold dim")
            table.add_row(label, *map(_cell, cells))
    return table


def _cell(lines: Sequence[str]) -> Text:
    from rich.text import Text

    text = Text()
    for number, line in enumerate(lines):
        style = _STYLES.get(line[-1], "dim" if number else "")
        text.append(("\n" if number else "") + line, style=style)
    return text


def _section(heading: str, lines: Iterable[tuple[int, str]]) -> Iterator[RenderableType]:
    """A heading, and each line indented as far as it says, wrapped lines too."""
    from rich.padding import Padding
    from rich.text import Text

    yield Text(f"\n{heading}", style="bold")
    for indent, line in lines:
        yield Padding(Text(line, overflow="fold"), (0, 0, 0, indent), expand=False)


def _failures(comparison: Comparison, results: Path) -> Iterator[tuple[int, str]]:
    for group in comparison.failures:
        what = f"{one_line(group.stage)}: {one_line(group.kind)}"
        message = one_line(group.message, _MAX_MESSAGE_CHARS)
        yield 2, f"{what} ({counted(len(group.cells), 'cell')}): {message}"
        yield 4, group.way_out
        yield 4, f"cells: {examples(map(one_line, group.cells), _MAX_CELLS)}"
        yield 4, f"left in {results / group.folder}"
