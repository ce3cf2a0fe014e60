"""The live view on a terminal: counts, what each slot does, and what happened last."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO, TypeAlias

from rich.cells import chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchfleet.cli.text.notices import (
    DEBUG,
    INFO,
    counts_text,
    level_of,
    memory_text,
    progress_text,
    sentence,
    speed_text,
)
from benchfleet.cli.text.terminal import printable
from benchfleet.domain.humanize import counted, duration
from benchfleet.runner.progress import Notice, Observer, Progress, Running

_Row: TypeAlias = Sequence[Text | ProgressBar]
_MAX_RECENT = 4  # things that happened, kept in view
_BAR_COLUMNS = 12  # columns
_GAP_COLUMNS = 2  # columns between two
_NAME_INDEX = 1  # index of the cell's name in a row
_MIN_NAME_COLUMNS = 20  # columns that the name has before others are left out
_DISPENSABLE = (6, 5, 2)  # memory, speed and the bar, in this order
_TRANSIENT_KINDS = {"cell_done", "cell_resumed", "cell_split", "host_ready"}  # gone with the view


@contextlib.contextmanager
def live(campaign: str, stream: TextIO, *, level: int = INFO) -> Iterator[Observer]:
    """Draw the run until the block ends."""
    console = Console(file=stream)
    view = LiveView(campaign, level=level)
    drawn = Live(get_renderable=view.draw, console=console, refresh_per_second=5, transient=True)
    with contextlib.suppress(OSError):  # the terminal may go away at any moment
        drawn.start()
    try:
        yield view
    finally:
        with contextlib.suppress(OSError):
            drawn.stop()
            for line in view.troubles:
                console.print(line, soft_wrap=True)  # the terminal folds it, and can copy it whole


class LiveView:
    """What is drawn, from the last state that the runner showed."""

    def __init__(self, campaign: str, *, level: int = INFO) -> None:
        self._campaign, self._level = campaign, level
        self._progress, self._begun = Progress(), False
        self._last: deque[Text] = deque(maxlen=_MAX_RECENT)
        self.troubles: list[Text] = []  # what stays on the screen when the view is gone

    def __call__(self, notice: Notice, progress: Progress) -> None:
        self._progress, self._begun = progress, True
        if (level := level_of(notice)) and level >= self._level:
            passes = level == DEBUG or notice.kind in _TRANSIENT_KINDS
            line = Text(printable(sentence(notice)), style="dim" if passes else "yellow")
            self._last.append(line)
            if not passes:
                self.troubles.append(line)

    def draw(self) -> _Screen:
        """The view as it stands now; called from the drawing thread."""
        progress, now = self._progress, time.monotonic()
        head = counts_text(progress) if self._begun else "starting"
        rows = [_row(slot, now) for slot in list(progress.slots.values())]
        bar = _overall(progress, now) if self._begun and progress.total else None
        return _Screen(_Head(self._campaign, head, bar), rows, list(self._last))


def _overall(progress: Progress, now: float) -> tuple[float, str]:
    """The completed share of the run, and it as text with the time left."""
    text = progress_text(progress.share, remaining := progress.seconds_left(now))
    if remaining is not None and progress.eta and progress.eta.spread >= 1:
        text += f" ± {duration(progress.eta.spread)}"
    return progress.share, text


@dataclass(frozen=True)
class _Screen:
    """All of it, never higher than the terminal: of what does not fit nothing could be taken back,
    and it would stay there when the run ends. Slots make room for the latest that happened."""

    head: _Head
    rows: Sequence[_Row]
    last: Sequence[Text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = console.render_lines(self.head, options, pad=False)
        recent = [[*_folded(one, options.max_width)] for one in self.last]
        room = options.size.height - len(head) - 1
        while len(recent) > 1 and sum(map(len, recent)) > max(room // 2, room - len(self.rows)):
            recent.pop(0)
        free_lines = room - sum(map(len, recent))
        visible = self.rows if len(self.rows) <= free_lines else self.rows[: max(0, free_lines - 1)]
        yield self.head
        yield _Slots(visible)
        if more := len(self.rows) - len(visible):
            yield Text(f"  … and {counted(more, 'more slot')}", style="dim")
        yield from (line for lines in recent for line in lines)


@dataclass(frozen=True)
class _Head:
    """The campaign, its counts, and a bar for the whole run. Where the terminal is narrow the
    counts have lines of their own, and the name is cut."""

    campaign: str
    counts: str
    bar: tuple[float, str] | None = None  # the completed share, and the text beside it

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = Text(f"{self.campaign}   {self.counts}", style="bold")
        if whole.cell_len <= options.max_width:
            yield whole
        else:
            yield Text(self.campaign, style="bold", no_wrap=True, overflow="ellipsis")
            yield Text(self.counts, style="bold")
        if self.bar is not None:
            share, text = self.bar
            width = options.max_width - len(text) - 2 * _GAP_COLUMNS
            grid = Table.grid(padding=(0, _GAP_COLUMNS), expand=False)
            bar = [ProgressBar(total=1.0, completed=share, width=width)]
            grid.add_row("", *(bar if width >= _BAR_COLUMNS else []), Text(text))
            yield grid


def _folded(line_text: Text, width: int) -> Iterator[Text]:
    """What happened, as a terminal folds it: a name without blanks begins no line of its own."""
    for line in chop_cells(line_text.plain, width):
        yield Text(line, style=line_text.style, no_wrap=True)


def _row(slot: Running, now: float) -> _Row:
    """What stands beside each other of a slot."""
    total = slot.total or 1
    return [
        Text(slot.devices),
        Text(printable(slot.cell or slot.stage), style="" if slot.cell else "dim"),
        ProgressBar(total=total, completed=min(slot.done, total), width=_BAR_COLUMNS),
        Text(f"{slot.done}/{slot.total}" if slot.total else slot.stage),
        Text(duration(now - slot.since) if slot.cell else ""),
        Text(speed_text(slot.tokens_per_second(now))),
        Text(memory_text(*slot.memory)),
    ]


@dataclass(frozen=True)
class _Slots:
    """A line for each slot. Where the terminal is narrow columns are left out, and then names cut,
    so that numbers stay whole."""

    rows: Sequence[_Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.rows:
            return
        widths = [
            max(_BAR_COLUMNS if isinstance(one, ProgressBar) else one.cell_len for one in column)
            for column in zip(*self.rows, strict=True)
        ]
        columns = [index for index, width in enumerate(widths) if width]
        for index in _DISPENSABLE:
            if _room(widths, columns, options.max_width) >= min(
                widths[_NAME_INDEX], _MIN_NAME_COLUMNS
            ):
                break
            columns = [one for one in columns if one != index]
        room = max(1, _room(widths, columns, options.max_width))
        grid = Table.grid(padding=(0, _GAP_COLUMNS), expand=False)
        grid.add_column()
        for index in columns:
            width = min(widths[index], room) if index == _NAME_INDEX else widths[index]
            grid.add_column(no_wrap=True, overflow="ellipsis", width=width)
        for row in self.rows:
            grid.add_row("", *(row[index] for index in columns))
        yield grid


def _room(widths: Sequence[int], columns: Sequence[int], width: int) -> int:
    """What is left for the names beside these columns."""
    return (
        width
        - sum(widths[one] for one in columns if one != _NAME_INDEX)
        - _GAP_COLUMNS * (len(columns) + 1)
    )
