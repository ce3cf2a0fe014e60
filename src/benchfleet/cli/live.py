"""The live view on a terminal: counts, what each slot does, and what happened last."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchfleet.cli.telling import counted, held, speed, told
from benchfleet.cli.words import duration, printable
from benchfleet.runner.progress import Notice, Observer, Progress

_LAST = 4  # things that happened, kept in view
_TOLD = {
    "cell_failed",
    "cell_released",
    "claim_lost",
    "slot_lost",
    "slots_changed",
    "published_late",
    "waiting",
    "interrupted",
    "warning",
}


@contextlib.contextmanager
def live(campaign: str, stream: TextIO) -> Iterator[Observer]:
    """Draw the run until the block ends."""
    console = Console(file=stream)
    view = View(campaign)
    drawn = Live(get_renderable=view.draw, console=console, refresh_per_second=5, transient=True)
    with contextlib.suppress(OSError):  # the terminal may go away at any moment
        drawn.start()
    try:
        yield view
    finally:
        with contextlib.suppress(OSError):
            drawn.stop()
            for line in view.troubles:
                console.print(line)


class View:
    """What is drawn, from the last state that the runner showed."""

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._progress = Progress()
        self._last: deque[Text] = deque(maxlen=_LAST)
        self.troubles: list[Text] = []  # what stays on the screen when the view is gone

    def __call__(self, notice: Notice, progress: Progress) -> None:
        self._progress = progress
        if notice.kind in _TOLD:
            line = Text(printable(told(notice, progress)), style="yellow", overflow="ellipsis")
            self._last.append(line)
            self.troubles.append(line)
        elif notice.kind == "cell_done":
            self._last.append(
                Text(printable(told(notice, progress)), style="dim", overflow="ellipsis")
            )

    def draw(self) -> Group:
        """The view as it stands now; called from the drawing thread."""
        progress, now = self._progress, time.monotonic()
        head = Text(f"{self._campaign}   {counted(progress)}", style="bold", no_wrap=True)
        left = progress.seconds_left(now)
        if left is not None:
            head.append(f" · ETA {duration(left)}")
            if progress.outlook and progress.outlook.spread >= 1:
                head.append(f" ± {duration(progress.outlook.spread)}")
        slots = Table.grid(padding=(0, 2), expand=False)
        for _ in range(2):
            slots.add_column(no_wrap=True)
        slots.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for _ in range(5):
            slots.add_column(no_wrap=True)
        for slot in list(progress.slots.values()):
            total = slot.total or 1
            slots.add_row(
                "",
                slot.devices,
                Text(printable(slot.cell or slot.stage), style="" if slot.cell else "dim"),
                ProgressBar(total=total, completed=min(slot.done, total), width=12),
                f"{slot.done}/{slot.total}" if slot.total else slot.stage,
                duration(now - slot.since) if slot.cell else "",
                speed(slot, now),
                held(slot),
            )
        return Group(head, slots, *self._last)
