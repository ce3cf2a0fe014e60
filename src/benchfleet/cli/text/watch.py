"""Showing a run while it goes: a live view on a terminal, a line an event elsewhere, or JSON."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from benchfleet.cli.text.notices import (
    INFO,
    LEVELS,
    awaited_text,
    counts_text,
    level_of,
    progress_text,
    sentence,
)
from benchfleet.cli.text.output import say
from benchfleet.cli.text.terminal import can_redraw
from benchfleet.runner.progress import Notice, Observer, Progress
from benchfleet.runs.live_state import combine, line_of

_LEVEL_NAMES = {level: name.upper() for name, level in LEVELS.items()}
SUMMARY_INTERVAL_S = 30.0  # between two summary lines outside of a terminal
_CLOCK_S = 0.5  # between two looks at whether a summary line is due


@contextlib.contextmanager
def watch(
    campaign: str,
    stream: TextIO,
    *,
    as_json: bool,
    summary_s: float = SUMMARY_INTERVAL_S,
    level: int = INFO,
    log_file: Path | None = None,
) -> Iterator[Observer]:
    """The observer that suits where the progress goes; it never ends what it watches. Lines of at
    least `level` are also appended to `log_file`, each with its time. Raises OSError where that
    cannot be opened."""
    with contextlib.ExitStack() as opened:
        log = opened.enter_context(open(log_file, "a", encoding="utf-8")) if log_file else None
        if as_json:
            observer: Observer = JsonLines(stream)
        elif can_redraw(stream):
            from benchfleet.cli.text.live_view import live

            observer = opened.enter_context(live(campaign, stream, level=level))
        else:
            lines = PlainLines(campaign, stream, summary_s=summary_s, level=level)
            observer = opened.enter_context(repeating(Unbreakable(lines)))
        combined: Observer = Unbreakable(observer)
        if log is not None:
            lines = PlainLines(campaign, log, summary_s=summary_s, level=level, timed=True)
            combined = combine(combined, opened.enter_context(repeating(Unbreakable(lines))))
        yield combined


class Unbreakable:
    """Shows nothing more once showing failed: the reader left, the disk of the log is full."""

    def __init__(self, observer: Observer) -> None:
        self._observer: Observer | None = observer

    def __call__(self, notice: Notice, progress: Progress) -> None:
        if self._observer is not None:
            try:
                self._observer(notice, progress)
            except (OSError, ValueError):
                self._observer = None


@contextlib.contextmanager
def repeating(observer: Observer) -> Iterator[Observer]:
    """Show the observer the last state of a run by a clock, too, until the run or the block ends: a
    summary line comes although nothing happens. The observer must not raise."""
    lock, over = threading.Lock(), threading.Event()
    latest: Progress | None = None

    def observe(notice: Notice, progress: Progress) -> None:
        nonlocal latest
        with lock:
            latest = None if notice.kind == "run_ended" else progress
            observer(notice, progress)

    def repeat() -> None:
        while not over.wait(_CLOCK_S):
            with lock:
                if latest is not None:
                    observer(Notice(kind="cell_progress"), latest)

    thread = threading.Thread(target=repeat, name="summary", daemon=True)
    thread.start()
    try:
        yield observe
    finally:
        over.set()
        thread.join()


class JsonLines:
    """Every notice as one JSON object on one line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, notice: Notice, progress: Progress) -> None:
        print(json.dumps(line_of(notice, progress)), file=self._stream, flush=True)


class PlainLines:
    """One line for each notable event, and a summary line where none came for a while and cells
    are left."""

    def __init__(
        self,
        campaign: str,
        stream: TextIO,
        *,
        summary_s: float = SUMMARY_INTERVAL_S,
        level: int = INFO,
        timed: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._campaign, self._stream = campaign, stream
        self._level, self._timed = level, timed
        self._summary_s, self._now = summary_s, now
        self._printed_at = now()

    def __call__(self, notice: Notice, progress: Progress) -> None:
        now = self._now()
        if level := level_of(notice):
            width = len(str(progress.total))
            self._say(f"[{progress.ended:>{width}}/{progress.total}] {sentence(notice)}", level)
        elif notice.kind == "run_started":
            self._say(f"{self._campaign}: {counts_text(progress)}")
        elif notice.kind == "cell_progress" and self._is_due(now) and not progress.all_ended:
            self._say(f"{self._campaign}: {_summary(progress, now)}")

    def _is_due(self, now: float) -> bool:
        return now >= self._printed_at + self._summary_s

    def _say(self, text: str, level: int = INFO) -> None:
        if level < self._level:
            return
        self._printed_at = self._now()
        if self._timed:
            text = f"{time.strftime('%F %T')} {_LEVEL_NAMES[level]:7} {text}"
        say(text, to=self._stream, flush=True)


def _summary(progress: Progress, now: float) -> str:
    """How a run stands, and what it waits for."""
    remaining = progress_text(progress.share, progress.seconds_left(now))
    parts = [counts_text(progress), remaining, awaited_text(progress, now)]
    return " · ".join(filter(None, parts))
