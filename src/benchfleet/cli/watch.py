"""Showing a run while it goes: a live view on a terminal, a line an event elsewhere, or JSON."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import TextIO

from benchfleet.cli.words import duration, printable
from benchfleet.runner.progress import Notice, Observer, Progress

_QUIET = {"cell_progress", "slot_opening", "slot_ready", "cell_started", "run_ended"}


@contextlib.contextmanager
def watch(campaign: str, stream: TextIO, *, as_json: bool) -> Iterator[Observer]:
    """The observer that suits where the progress goes."""
    if as_json:
        yield JsonLines(stream)
    elif stream.isatty():
        from benchfleet.cli.live import live

        with live(campaign, stream) as observer:
            yield observer
    else:
        yield PlainLines(campaign, stream)


class JsonLines:
    """Every notice as one JSON object on one line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, notice: Notice, progress: Progress) -> None:
        line = {
            "time": time.time(),
            "kind": notice.kind,
            "cell": notice.cell,
            "slot": notice.slot,
            "message": notice.message,
            "data": dict(notice.data),
            "total": progress.total,
            "ended": progress.ended,
        }
        print(json.dumps(line), file=self._stream, flush=True)


class PlainLines:
    """One line for each thing worth one."""

    def __init__(self, campaign: str, stream: TextIO) -> None:
        self._campaign, self._stream = campaign, stream

    def __call__(self, notice: Notice, progress: Progress) -> None:
        if notice.kind == "run_started":
            self._say(f"{self._campaign}: {counted(progress)}")
        elif notice.kind not in _QUIET:
            width = len(str(progress.total))
            self._say(f"[{progress.ended:>{width}}/{progress.total}] {told(notice, progress)}")

    def _say(self, text: str) -> None:
        print(printable(text), file=self._stream, flush=True)


def counted(progress: Progress) -> str:
    """``30 cells · 12 done (12 reused) · 2 failed``"""
    states = progress.states
    parts = [f"{progress.total} cells", f"{progress.ended} done"]
    if progress.reused:
        parts[-1] += f" ({progress.reused} reused)"
    for state in ("failed", "partial", "skipped", "cancelled", "running"):
        if states.get(state):
            parts.append(f"{states[state]} {state}")
    return " · ".join(parts)


def told(notice: Notice, progress: Progress) -> str:
    """A notice as one sentence."""
    data = notice.data
    if notice.kind == "cell_done":
        metrics = data["metrics"]
        error = f" ± {metrics['stderr']:.3f}" if "stderr" in metrics else ""
        score = f"{metrics['overall_score']:.3f}{error}"
        return f"✓ {notice.cell}  {score}  {duration(data['took'])}"
    if notice.kind == "cell_failed":
        again = data["retry_in"]
        after = f"; again in {duration(again)}" if again is not None else ""
        return f"✗ {notice.cell}  {notice.message}{after}"
    if notice.kind == "cell_released":
        return f"↩ {notice.cell}  given back with {data['samples']} samples ({notice.message})"
    if notice.kind == "claim_lost":
        return f"↩ {notice.cell}  {notice.message}"
    if notice.kind == "slot_lost":
        return f"! slot {notice.slot} ended: {notice.message}; another takes its place"
    if notice.kind == "published_late":
        return f"✓ {notice.cell}  published now; the run before ended too early"
    if notice.kind == "waiting":
        return f"… waiting for {notice.cell}: {notice.message}"
    if notice.kind == "interrupted":
        if data["times"] > 1:
            return f"{notice.message} again: ended now"
        if not data["cells"]:
            return f"{notice.message}: ending"
        return (
            f"{notice.message}: {data['cells']} running cells stop after the sample at hand and"
            " keep what they have; again to end now"
        )
    return f"! {notice.cell} {notice.message}".replace("  ", " ")
