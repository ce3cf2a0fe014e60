"""A report of progress is bounded, and one of another host is checked."""

from __future__ import annotations

import json

import pytest

from benchfleet.domain.worker_progress import MAX_PROGRESS_BYTES, SlotProgress, WorkerProgress

SLOT = SlotProgress(devices="gpu:0", cell="m/dense/b", stage="benchmark", done=3, total=9, memory=7)


def test_a_report_comes_back_as_it_was() -> None:
    report = WorkerProgress(runner="me", slots=(SLOT, SlotProgress()), eta=3.5)
    assert WorkerProgress.from_json("me", report.to_json(), 0.0) == report


@pytest.mark.parametrize("name", ["m", "m" * 4000])
def test_a_report_of_many_slots_is_cut_and_says_so(name: str) -> None:
    slots = tuple(SlotProgress(cell=f"{name}/{number}") for number in range(500))
    text = WorkerProgress(runner="me", slots=slots).to_json()
    assert len(text) <= MAX_PROGRESS_BYTES
    report = WorkerProgress.from_json("me", text, 1.0)
    assert report is not None
    assert report.slots
    assert report.slots == slots[: len(report.slots)]
    assert len(report.slots) + report.more_slots == 500


@pytest.mark.parametrize(
    "broken",
    [
        {"slots": [{"done": 1}]},
        {"slots": 3},
        {"eta": float("nan")},
        {"eta": "soon"},
        {"more_slots": -1},
        {"more_slots": None},
    ],
)
def test_what_another_host_wrote_wrongly_is_no_report(broken: dict[str, object]) -> None:
    fields = json.loads(WorkerProgress(runner="me", slots=(SLOT,)).to_json())
    assert WorkerProgress.from_json("me", json.dumps(fields | broken), 0.0) is None
    assert WorkerProgress.from_json("me", "[" * 100_000, 0.0) is None
