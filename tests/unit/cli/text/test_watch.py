"""What a run prints where no terminal shows it."""

from __future__ import annotations

import io

from benchfleet.cli.text.watch import PlainLines
from benchfleet.runner.progress import Notice, Progress, Running


def test_a_pipe_gets_a_summary_line_with_percent_and_eta_before_the_first_cell_ends() -> None:
    stream, clock = io.StringIO(), [100.0]
    lines = PlainLines("study", stream, summary_s=30.0, now=lambda: clock[0])
    slot = Running(slot="1", devices="cpu:0", cell="m/dense/b", stage="benchmark", total=90)
    slot.asked_since = 100.0
    progress = Progress(total=2, states={"running": 1, "pending": 1}, slots={"1": slot})
    lines(Notice(kind="run_started"), progress)
    for seconds, done in ((10, 9), (29, 27), (30, 45), (40, 46), (60, 90)):
        clock[0], slot.done = 100.0 + seconds, done
        lines(Notice(kind="cell_progress"), progress)
    assert stream.getvalue().splitlines() == [
        "study: 2 cells · 0 done · 1 running",
        "study: 2 cells · 0 done · 1 running · 25 % · ETA 1 min 30 s",
        "study: 2 cells · 0 done · 1 running · 50 % · ETA 1 min 00 s",
    ]


def test_cells_that_were_done_before_do_not_shorten_the_eta() -> None:
    stream, clock = io.StringIO(), [0.0]
    lines = PlainLines("study", stream, summary_s=1.0, now=lambda: clock[0])
    slot = Running(slot="1", devices="cpu:0", cell="m/dense/b", stage="benchmark", total=10)
    progress = Progress(total=4, reused=2, states={"success": 2}, slots={"1": slot})
    slot.asked_since = 1.0
    slot.done, clock[0] = 5, 11.0
    lines(Notice(kind="cell_progress"), progress)
    assert stream.getvalue() == "study: 4 cells · 2 done (2 reused) · 62 % · ETA 30 s\n"


def test_samples_of_an_earlier_attempt_do_not_shorten_the_eta() -> None:
    slot = Running(slot="1", devices="cpu:0")
    slot.take("m/dense/b", done=50, now=0.0)
    slot.enter("benchmark", 1.0)
    slot.done, slot.total = 55, 100
    progress = Progress(total=1, states={"running": 1}, slots={"1": slot})
    assert progress.seconds_left(11.0) == 90.0
    slot.done = 50
    assert progress.seconds_left(11.0) is None
