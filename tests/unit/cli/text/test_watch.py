"""What a run prints where no terminal shows it."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest

from benchfleet.cli.text.notices import LEVELS, sentence
from benchfleet.cli.text.watch import PlainLines, watch
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


def test_few_samples_and_other_stages_tell_no_eta() -> None:
    slot = Running(slot="1", devices="cpu:0")
    slot.take("m/dense/b", done=0, now=0.0)
    slot.enter("benchmark", 1.0)
    progress = Progress(total=1, states={"running": 1}, slots={"1": slot})
    slot.done, slot.total = 1, 50
    assert progress.seconds_left(11.0) is None
    slot.done = 5
    assert progress.seconds_left(11.0) == 90.0
    slot.enter("collect", 11.0)
    assert progress.seconds_left(12.0) is None


def test_a_summary_line_comes_by_the_clock_while_nothing_happens_and_names_awaited_hosts() -> None:
    stream = io.StringIO()
    began = time.monotonic()
    progress = Progress(total=2, states={"success": 1, "pending": 1})
    with watch("study", stream, as_json=False, summary_s=0.2) as observer:
        observer(Notice(kind="run_started"), progress)
        progress.awaited = {"port": began - 65, "away": began - 5}
        while len(stream.getvalue().splitlines()) < 3 and time.monotonic() < began + 10:
            time.sleep(0.05)
        observer(Notice(kind="run_ended"), progress)
        ended = stream.getvalue()
        time.sleep(1.2)
    assert stream.getvalue() == ended
    line = ended.splitlines()[1]
    counts = r"study: 2 cells · 1 done · 50 % · "
    assert re.fullmatch(counts + r"waiting for hosts away, port, since 1 min 0\d s", line)


def test_no_summary_line_comes_once_no_cell_is_left() -> None:
    stream = io.StringIO()
    lines = PlainLines("study", stream, summary_s=0.0)
    lines(Notice(kind="cell_progress"), Progress(total=1, states={"success": 1}))
    assert stream.getvalue() == ""


def _failure(retry_in: float | None) -> Notice:
    data = {"retry_in": retry_in, "differently": ""}
    return Notice(kind="cell_failed", cell="m/dense/b", message="no memory", data=data)


def test_a_level_leaves_out_what_is_less_serious() -> None:
    stream = io.StringIO()
    lines = PlainLines("study", stream, level=LEVELS["error"])
    for notice in (
        Notice(kind="run_started"),
        Notice(kind="warning", message="it is hot"),
        _failure(retry_in=3.0),
        _failure(retry_in=None),
    ):
        lines(notice, Progress(total=1))
    assert stream.getvalue() == "[0/1] ✗ m/dense/b  no memory\n"


def test_debug_shows_attempts_and_slots() -> None:
    stream = io.StringIO()
    lines = PlainLines("study", stream, level=LEVELS["debug"])
    lines(Notice(kind="slot_opening", slot="s1", data={"devices": "gpu:0"}), Progress(total=1))
    started = Notice(kind="cell_started", cell="m/dense/b", slot="s1", data={"attempt": 2})
    lines(started, Progress(total=1))
    assert stream.getvalue().splitlines() == [
        "[0/1] + slot s1 starts on gpu:0",
        "[0/1] ▸ m/dense/b  attempt 2 on slot s1",
    ]


def test_a_log_file_gets_lines_with_time_and_level_after_what_was_there(tmp_path: Path) -> None:
    log, shown = tmp_path / "run.log", io.StringIO()
    log.write_text("earlier\n")
    with watch("study", shown, as_json=True, log_file=log) as observer:
        observer(Notice(kind="run_started"), Progress(total=1))
        observer(_failure(retry_in=None), Progress(total=1))
    earlier, begin, failed = log.read_text().splitlines()
    assert earlier == "earlier"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO    study: 1 cell · 0 done", begin)
    assert failed[20:] == "ERROR   [0/1] ✗ m/dense/b  no memory"
    assert len(shown.getvalue().splitlines()) == 2


def test_a_part_of_a_split_cell_ends_with_its_samples_and_no_score() -> None:
    metrics = {"overall_score": 0.0, "samples": 12}
    data = {"took": 29.0, "metrics": metrics}
    part = Notice(kind="cell_done", cell="m/dense/b+part2of2", data=data)
    assert sentence(part) == "✓ m/dense/b+part2of2  12 samples  29 s"
    whole = Notice(kind="cell_done", cell="m/dense/b", data=data)
    assert sentence(whole) == "✓ m/dense/b  0.000  29 s"


@pytest.mark.parametrize(("samples", "text"), [(3, "given back with 3 samples"), (0, "given back")])
def test_of_a_cell_given_back_samples_are_counted_where_there_are_some(
    samples: int, text: str
) -> None:
    """The samples of a script are counted at its end alone, though its answers are kept."""
    given = Notice(
        kind="cell_released", cell="m/dense/b", message="stopped", data={"samples": samples}
    )
    assert sentence(given) == f"↩ m/dense/b  {text} (stopped)"
