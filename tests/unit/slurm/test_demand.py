"""How many pilots are missing, and how long to wait after pilots that ended nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.slurm.commands import Pilot
from benchfleet.slurm.demand import MAX_PAUSE_S, SubmitBackoff, Work, missing_pilots


def work(waiting: int = 0, running: int = 0, ended: int = 0) -> Work:
    return Work(waiting=waiting, running=running, ended=ended)


def pilots(queued: int, running: int) -> list[Pilot]:
    states = ["PENDING"] * queued + ["RUNNING"] * running
    return [
        Pilot(job=f"1_{n}", state=state, time_left="", node="", reason="")
        for n, state in enumerate(states)
    ]


@pytest.mark.parametrize(
    ("waiting", "running", "queued", "started", "expected"),
    [
        (100, 0, 0, 0, 4),  # at most four wait
        (100, 0, 4, 0, 0),
        (100, 5, 1, 5, 3),
        (100, 9, 0, 9, 1),  # ten in all
        (100, 10, 0, 10, 0),
        (100, 12, 0, 12, 0),
        (2, 0, 0, 0, 2),  # one for each cell
        (2, 3, 0, 3, 2),
        (2, 3, 2, 3, 0),
        (0, 3, 0, 0, 0),  # nothing waits
    ],
)
def test_as_many_as_are_asked_for_and_cells_need(
    waiting: int, running: int, queued: int, started: int, expected: int
) -> None:
    current = pilots(queued, started)
    assert missing_pilots(work(waiting, running), current, workers=10, max_queued=4) == expected


def test_pilots_that_achieve_nothing_double_the_pause(tmp_path: Path) -> None:
    backoff, now = SubmitBackoff.load(tmp_path / "none.json"), 1000.0
    assert backoff.after(False, [], now).not_before == 0
    pauses = []
    for _ in range(9):
        backoff = backoff.submitted(event=5, samples=9)
        assert backoff.after(False, pilots(1, 0), now).not_before == 0  # they are still there
        backoff = backoff.after(False, [], now)
        assert backoff.after(False, [], now + 7) == backoff
        pauses.append(backoff.not_before - now)
    assert pauses[:4] == [60, 120, 240, 480]
    assert pauses[-1] == MAX_PAUSE_S
    backoff.save(tmp_path / "state.json")
    assert SubmitBackoff.load(tmp_path / "state.json") == backoff
    assert backoff.after(True, [], now).not_before == 0


def test_a_damaged_state_is_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    for text in ("", "[]", '{"event": 1}', '{"event": null, "pause": 0, "not_before": 0}'):
        file.write_text(text)
        assert SubmitBackoff.load(file) == SubmitBackoff()
