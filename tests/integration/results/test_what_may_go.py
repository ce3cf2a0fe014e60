"""What of a campaign's folder may be packed or deleted, and what never."""

from __future__ import annotations

import os

import pytest

from benchfleet.domain.event import Event
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.samples import earlier_samples
from benchfleet.testing import sample_cell
from study import Study

from .archives import LONG, archive, attempt, failed, grow_log, items, places, succeeded_late


def test_failed_attempts_of_a_cell_that_has_its_result_may_go(study: Study) -> None:
    folder = succeeded_late(study, 3)
    (item,) = items(study, "attempts")
    assert (item.path, item.name) == (folder, f"{sample_cell(3).id} 1-1")
    assert item.bytes > len(LONG)


def test_of_a_cell_that_ended_without_one_the_last_and_the_furthest_attempt_stay(
    study: Study,
) -> None:
    first, furthest, third, last = failed(study, 3, 1, 5, 2, 0)
    assert places(study, "attempts") == [first, third]
    for item in items(study, "attempts"):
        archive(study).delete(item)
    assert (furthest.exists(), last.exists()) == (True, True)
    assert earlier_samples(furthest.parent).count(b"\n") == 5


@pytest.mark.parametrize("ending", ["retry_asked", "claimed", "unknown", "not published"])
def test_what_somebody_goes_on_from_is_left_alone(study: Study, ending: str) -> None:
    folders = failed(study, 3, 1, 2, 3)
    cell = sample_cell(3)
    if ending == "unknown":
        study.ledger = MemoryLedger()
    elif ending == "not published":
        study.ledger.record(Event(kind="retry_asked", fingerprint=cell.fingerprint))
        study.finish(cell, rename=False)
    else:
        study.ledger.record(Event(kind="retry_asked", fingerprint=cell.fingerprint))
        if ending == "claimed":
            attempt(study, study.claim(cell), 3, fails=False)
    found = archive(study)
    assert list(found.items(study.ledger.cells(), ["attempts"])) == []
    assert sum(found.retained.values()) >= len(folders)


def test_a_scoring_at_work_is_left_alone_for_a_day(study: Study) -> None:
    cell = study.record(study.one).fingerprint
    folder = study.layout.attempts_of(cell) / "rescored-1234"
    folder.mkdir(parents=True)
    assert places(study, "attempts") == []
    os.utime(folder, (1, 1))
    assert places(study, "attempts") == [folder]


def test_logs_of_slots_stay_while_a_run_may_write_them(study: Study) -> None:
    study.layout.slots.mkdir()
    old, new = study.layout.slot_log("old"), study.layout.slot_log("new")
    for log, written in ((old, 1000.0), (new, 5000.0)):
        log.write_bytes(LONG)
        os.utime(log, (written, written))
    found = archive(study, busy_since=4000.0).items([], ["logs"])
    assert [item.path for item in found] == [old]
    assert places(study, "logs") == [new, old]


def test_only_large_raw_files_of_a_result_are_raw(study: Study) -> None:
    log = grow_log(study, 3)
    assert places(study, "raw") == [log]
    assert {file.name for file in log.parent.iterdir()} > {"samples.jsonl", "raw_results.csv"}
