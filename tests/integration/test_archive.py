"""What may be packed or deleted of a campaign's folder, what never, and being cut short."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import tarfile
import time
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Claim, Outcome
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.errors import ResultsError
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.archive import WHAT, Attic, Item, packed_attempts
from benchfleet.results.arrivals import refusal
from benchfleet.results.samples import earlier_samples
from benchfleet.results.write import AttemptFolder
from benchfleet.runner.mending.rebuild import rebuild
from benchfleet.testing import sample_cell
from study import Study

FAILURE = Failure(stage="benchmark", kind="error", message="on purpose")
LONG = b"a line that is said again and again\n" * 400


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "study")


def attempt(study: Study, claim: Claim, samples: int, *, fails: bool = True) -> Path:
    """An attempt that recorded so many samples, and failed or was killed."""
    folder = AttemptFolder(study.layout.attempt(claim.lease))
    for index in range(samples):
        sample = {"index": index, "id": f"s{index}", "columns": {}, "predicted_answer": "yes"}
        folder.record(json.dumps(sample).encode() + b"\n")
    folder.log.write_bytes(LONG)
    folder.fail(FAILURE) if fails else folder.close()
    return folder.folder


def failed(study: Study, number: int, *samples: int, state: str = "partial") -> list[Path]:
    """A cell that failed once for each of these counts of samples, and has ended so."""
    cell, made = sample_cell(number), []
    for place, count in enumerate(samples, start=1):
        claim = study.claim(cell)
        made.append(attempt(study, claim, count))
        again = 0.0 if place < len(samples) else None
        outcome = Outcome(state=state, failure=FAILURE, retry_in=again)  # type: ignore[arg-type]
        study.ledger.finish(claim.lease, outcome)
    return made


def succeeded_late(study: Study, number: int) -> Path:
    """A cell that failed once, was tried again, and has its result; the attempt that failed."""
    (folder,) = failed(study, number, 1, state="failed")
    fingerprint = sample_cell(number).fingerprint
    study.ledger.record(Event(kind="retry_asked", fingerprint=fingerprint))
    study.finish(sample_cell(number))
    return folder


def attic(study: Study, *, busy_since: float | None = None) -> Attic:
    return Attic(study.layout, now=time.time(), busy_since=busy_since)


def items(study: Study, *what: str) -> list[Item]:
    return list(attic(study).items(study.ledger.cells(), what or WHAT))


def places(study: Study, *what: str) -> list[Path]:
    return [item.place for item in items(study, *what)]


def grow_log(study: Study, number: int) -> Path:
    """A result with a long log; where that is."""
    cell = sample_cell(number)
    path = cell.id

    def long_log(folder: AttemptFolder) -> None:
        folder.log.write_bytes(LONG)

    study.finish(cell, before=long_log)
    return study.folder(path) / "log.txt"


# What may go


def test_failed_attempts_of_a_cell_that_has_its_result_may_go(study: Study) -> None:
    folder = succeeded_late(study, 3)
    (item,) = items(study, "attempts")
    assert (item.place, item.name) == (folder, f"{sample_cell(3).id} 1-1")
    assert item.bytes > len(LONG)


def test_of_a_cell_that_ended_without_one_the_last_and_the_furthest_attempt_stay(
    study: Study,
) -> None:
    first, furthest, third, last = failed(study, 3, 1, 5, 2, 0)
    assert places(study, "attempts") == [first, third]
    for item in items(study, "attempts"):
        attic(study).delete(item)
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
    found = attic(study)
    assert list(found.items(study.ledger.cells(), ["attempts"])) == []
    assert sum(found.spared.values()) >= len(folders)


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
    found = attic(study, busy_since=4000.0).items([], ["logs"])
    assert [item.place for item in found] == [old]
    assert places(study, "logs") == [new, old]


def test_only_large_raw_files_of_a_result_are_raw(study: Study) -> None:
    log = grow_log(study, 3)
    assert places(study, "raw") == [log]
    assert {file.name for file in log.parent.iterdir()} > {"samples.jsonl", "raw_results.csv"}


# Packing


def test_a_packed_log_is_as_good_as_the_log(study: Study) -> None:
    log = grow_log(study, 3)
    (item,) = items(study, "raw")
    took = attic(study).pack(item, None)
    assert took < len(LONG) / 10
    assert not log.exists()
    assert gzip.decompress(log.with_name("log.txt.gz").read_bytes()) == LONG
    assert study.look() == study.look(quick=True) == []
    assert items(study, "raw") == []
    again = MemoryLedger()
    assert (rebuild(again, study.layout).taken, rebuild(again, study.layout).refused) == (3, ())


@pytest.mark.parametrize("act", ["move", "delete"])
def test_a_raw_file_that_was_taken_is_told_from_one_that_was_lost(
    study: Study, tmp_path: Path, act: str
) -> None:
    log = grow_log(study, 3)
    (item,) = items(study, "raw")
    if act == "move":
        attic(study).pack(item, tmp_path / "cold")
        (moved,) = (tmp_path / "cold").rglob("*.gz")
        assert gzip.decompress(moved.read_bytes()) == LONG
    else:
        attic(study).delete(item)
    assert not log.exists()
    assert study.look() == study.look(quick=True) == []
    assert rebuild(MemoryLedger(), study.layout).refused == ()
    note = log.with_name("log.txt.taken")
    note.write_text(note.read_text().replace('"sha256": "', '"sha256": "0'))
    assert [one.kind for one in study.look()] == ["damaged"]
    note.unlink()
    assert [one.message for one in study.look()] == ["log.txt is missing"]


@pytest.mark.parametrize("act", ["pack", "move", "delete"])
def test_a_result_whose_log_was_packed_or_taken_still_comes_to_other_folders(
    study: Study, tmp_path: Path, act: str
) -> None:
    log = grow_log(study, 3)
    (item,) = items(study, "raw")
    if act == "delete":
        attic(study).delete(item)
    else:
        attic(study).pack(item, tmp_path / "cold" if act == "move" else None)
    record = study.record(sample_cell(3).id)
    assert record.outcome is not None
    told = record.path, record.fingerprint, record.outcome.digest
    assert refusal(study.layout.root, *told) == ""
    (left,) = (file for file in log.parent.iterdir() if file.name.startswith("log.txt"))
    log.write_bytes(LONG)
    assert refusal(study.layout.root, *told) == f"{left.name} is not in its seal"
    log.unlink()
    left.write_bytes(gzip.compress(b"another"))
    assert "log.txt" in refusal(study.layout.root, *told)


@pytest.mark.parametrize("name", ["samples.jsonl", "metrics.json"])
def test_nothing_takes_the_place_of_what_a_result_is_made_of(study: Study, name: str) -> None:
    file = study.folder(study.one) / name
    content = file.read_bytes()
    file.unlink()
    file.with_name(f"{name}.gz").write_bytes(gzip.compress(content))
    note = {"sha256": hashlib.sha256(content).hexdigest()}
    file.with_name(f"{name}.taken").write_text(json.dumps(note))
    assert [one.message for one in study.look()] == [f"{name} is missing"]
    assert [one.message for one in study.look(quick=True)] == [f"{name} is missing"]


def test_a_damaged_raw_file_is_not_made_good_by_packing(study: Study) -> None:
    log = grow_log(study, 3)
    (item,) = items(study, "raw")
    log.write_bytes(LONG * 2)
    with pytest.raises(ResultsError, match="not as it was sealed"):
        attic(study).pack(item, None)
    assert log.read_bytes() == LONG * 2


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_packed_attempt_holds_all_that_was_there(
    study: Study, tmp_path: Path, elsewhere: bool
) -> None:
    folder = succeeded_late(study, 3)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "one").write_text("1")
    os.link(folder / "deep" / "er" / "one", folder / "two")
    (folder / "away").symlink_to("/etc/passwd")
    before = {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    before.pop("away")
    (item,) = items(study, "attempts")
    attic(study).pack(item, tmp_path / "cold" if elsewhere else None)
    assert not folder.parent.exists()
    fingerprint = sample_cell(3).fingerprint
    (packed,) = packed_attempts(study.layout, fingerprint).values()
    assert packed.is_relative_to(tmp_path / "cold" if elsewhere else study.layout.archive)
    with tarfile.open(packed) as tar:
        held = {
            Path(one.name).name: source.read()
            for one in tar
            if one.isfile() and (source := tar.extractfile(one))
        }
        assert tar.getmember("1-1/away").issym()
    assert held == before


def test_a_second_archive_of_the_same_name_overwrites_nothing(study: Study) -> None:
    first, _, _ = failed(study, 3, 1, 3, 2)
    for _ in range(2):
        (item,) = items(study, "attempts")
        attic(study).pack(item, None)
        first.mkdir()
    assert len(list(study.layout.archive.rglob("*.tar.gz"))) == 2


def test_archives_themselves_may_be_deleted_where_they_are_named(study: Study) -> None:
    succeeded_late(study, 3)
    (item,) = items(study, "attempts")
    attic(study).pack(item, None)
    (packed,) = items(study, "archives")
    assert packed.name.endswith("1-1.tar.gz")
    attic(study).delete(packed)
    assert items(study) == []
    assert packed_attempts(study.layout, sample_cell(3).fingerprint) == {}


def test_raw_files_that_were_packed_beside_their_result_may_be_deleted_as_archives(
    study: Study,
) -> None:
    log = grow_log(study, 3)
    assert items(study, "archives") == []
    (item,) = items(study, "raw")
    attic(study).pack(item, None)
    assert items(study, "raw") == []
    (packed,) = items(study, "archives")
    assert packed.place == log.with_name("log.txt.gz")
    attic(study).delete(packed)
    assert [one.name for one in log.parent.glob("log.txt*")] == ["log.txt.taken"]
    assert json.loads(log.with_name("log.txt.taken").read_text())["bytes"] == len(LONG)
    assert study.look() == items(study, "raw", "archives") == []


def test_a_packed_raw_file_that_is_torn_is_not_deleted(study: Study) -> None:
    log = grow_log(study, 3)
    (item,) = items(study, "raw")
    attic(study).pack(item, None)
    (packed,) = items(study, "archives")
    packed.place.write_bytes(packed.place.read_bytes()[:-9])
    with pytest.raises(OSError, match="torn"):
        attic(study).delete(packed)
    assert packed.place.exists()
    assert not log.with_name("log.txt.taken").exists()


def test_evidence_of_a_repair_may_be_packed(study: Study) -> None:
    (study.folder(study.one) / "log.txt").unlink()
    study.repair()
    (item,) = items(study, "evidence")
    attic(study).pack(item, None)
    assert list(study.layout.evidence.iterdir()) == []
    assert study.look() == []


# Being cut short


def test_a_full_disk_leaves_everything_where_it_was(study: Study, tmp_path: Path) -> None:
    folder = succeeded_late(study, 3)
    (folder / "noise").write_bytes(os.urandom(2**21))
    (item,) = items(study, "attempts")
    small = tmp_path / "small"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))  # it takes no larger file
    try:
        with pytest.raises(OSError, match="too large"):
            attic(study).pack(item, small)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [file for file in small.rglob("*") if file.is_file()] == []
    assert (folder / "noise").stat().st_size == 2**21
    assert packed_attempts(study.layout, sample_cell(3).fingerprint) == {}


def test_a_packing_that_was_killed_between_its_steps_is_done_again(study: Study) -> None:
    log = grow_log(study, 3)
    log.with_name("log.txt.gz").write_bytes(b"half")
    assert [found.kind for found in study.look()] == ["extra"]  # until then
    (item,) = items(study, "raw")
    attic(study).pack(item, None)
    assert (study.look(), log.exists()) == ([], False)


def test_what_was_taken_and_not_yet_removed_goes_at_the_next_time(study: Study) -> None:
    left = study.layout.archive / ".removed-0123"
    left.mkdir(parents=True)
    with attic(study).alone():
        assert not left.exists()


def test_only_one_packs_or_deletes_at_a_time(study: Study) -> None:
    with (
        attic(study).alone(),
        pytest.raises(ResultsError, match="another archive or gc"),
        attic(study).alone(),
    ):
        pass


def test_a_pipe_among_the_files_is_no_hindrance(study: Study) -> None:
    folder = succeeded_late(study, 3)
    (item,) = items(study, "attempts")
    os.mkfifo(folder / "pipe")
    attic(study).pack(item, None)
    assert not folder.exists()
