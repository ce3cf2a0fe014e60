"""Folders of attempts on a real disk: what they keep, hand on, leave and become."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Lease
from benchfleet.domain.failure import Failure
from benchfleet.errors import ResultsError
from benchfleet.results import write
from benchfleet.results.disk import make_folders
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.read import (
    sealed,
)
from benchfleet.results.samples import earlier_samples, read_samples
from benchfleet.results.write import (
    AttemptFolder,
)

from .conftest import CELL, LEASE, line, sealed_folder, verdict

OrdinaryUser = Callable[[Callable[[], object]], str]
BROKEN = Failure(stage="collect", kind="bad_result", message="no score")


def test_a_line_torn_by_a_crash_is_passed_over(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(0) + line(1)[:20])
    folder.close()
    assert list(read_samples(folder.folder / "samples.jsonl")) == [0]
    assert earlier_samples(layout.attempts_of(CELL.fingerprint)).count(b"\n") == 1


def test_the_attempt_that_got_furthest_serves_the_next(layout: Layout) -> None:
    for attempt, count in ((1, 2), (2, 5), (3, 1)):
        lease = Lease(fingerprint=CELL.fingerprint, attempt=attempt, token=attempt, expires_in=60)
        folder = AttemptFolder(layout.attempt(lease))
        folder.record(b"".join(line(index) for index in range(count)))
        folder.close()
    assert earlier_samples(layout.attempts_of(CELL.fingerprint)).count(b"\n") == 5


def test_a_file_among_the_attempts_is_none_of_them(layout: Layout) -> None:
    attempts = layout.attempts_of(CELL.fingerprint)
    attempts.mkdir(parents=True)
    (attempts / ".DS_Store").write_bytes(b"\0")
    assert earlier_samples(attempts) == b""


def test_a_failed_attempt_leaves_its_reason(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.fail(Failure(stage="load", kind="oom", message="no room"))
    left = json.loads((folder.folder / "failure.json").read_text())
    assert (left["stage"], left["kind"], left["message"]) == ("load", "oom", "no room")


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../b",
        "/etc/x",
        "a//b",
        "",
        ".",
        "..",
        "cell.json",
        "samples.jsonl",
        "log.txt",
        "LOG.TXT/x",
    ],
)
def test_a_file_from_a_slot_cannot_leave_its_folder(layout: Layout, name: str) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    with pytest.raises(ResultsError):
        folder.append(name, b"evil")
    folder.close()


def test_whatever_stays_in_the_folder_is_kept_under_a_name_that_every_system_takes(
    layout: Layout,
) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    for name in (".DS_Store", "out/.gitignore", "at 10:00.json", "at 10_00.json", "at 10:00.json"):
        folder.append(name, f"<{name}>".encode())
    folder.seal(CELL, CELL.id, verdict())
    kept = sealed(folder.folder)[0]["files"]
    assert {".DS_Store", "out/.gitignore", "at 10_00.json", "at 10_00.json~1"} <= set(kept)
    assert (folder.folder / "at 10_00.json").read_bytes() == b"<at 10:00.json>" * 2
    assert (folder.folder / "at 10_00.json~1").read_bytes() == b"<at 10_00.json>"


def test_a_file_from_a_slot_does_not_bring_back_a_folder_that_is_gone(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    shutil.rmtree(layout.attempts)  # the cell was published by another runner
    with pytest.raises(FileNotFoundError):
        folder.append("plots/plot.bin", b"late")
    folder.close()
    assert not layout.attempts.exists()


def test_a_discarded_attempt_leaves_nothing_but_evidence(layout: Layout) -> None:
    failed = AttemptFolder(layout.attempt(LEASE))
    failed.fail(Failure(stage="load", kind="error", message="no"))
    other = AttemptFolder(layout.attempt(replace(LEASE, attempt=2, token=2)))
    for folder in (failed, other):
        folder.close()
        folder.discard()
    assert [path.name for path in layout.attempts.glob("*/*")] == [failed.folder.name]


def test_files_from_a_slot_arrive_in_pieces(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.append("plots/plot.bin", b"one ")
    folder.append("plots/plot.bin", b"two")
    folder.record(line(0))
    folder.seal(CELL, CELL.id, verdict(1.0))
    assert (folder.folder / "plots/plot.bin").read_bytes() == b"one two"
    assert "plots/plot.bin" in sealed(folder.folder)[0]["files"]


def test_a_sample_that_is_recorded_again_counts_as_it_came_last(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(0, "first"))
    folder.record(line(1) + line(0, "again"))
    assert folder.seal(CELL, CELL.id, verdict(1.0, 0.0)).metrics["samples"] == 2
    found = read_samples(folder.folder / "samples.jsonl")
    assert [found[index]["predicted_answer"] for index in (0, 1)] == ["again", "yes"]


@pytest.mark.parametrize("end", [AttemptFolder.close, lambda folder: folder.fail(BROKEN)])
def test_samples_serve_the_next_attempt_however_this_one_ends(
    layout: Layout, end: Callable[[AttemptFolder], None]
) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(0))
    with pytest.raises(ValueError, match="2 samples were scored"):
        folder.seal(CELL, CELL.id, verdict(1.0, 0.0))
    end(folder)
    assert earlier_samples(layout.attempts_of(CELL.fingerprint)) == line(0)


def test_an_attempt_never_goes_on_in_a_folder_of_another_one(layout: Layout) -> None:
    """After a rebuild the ledger's tokens start again, and so do the names of attempts."""
    for answer in ("first", "second"):
        old = AttemptFolder(layout.attempt(LEASE))
        old.append("metrics.json", answer.encode())
        old.record(line(0, answer))
        old.close()
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(0))
    folder.seal(CELL, CELL.id, verdict(1.0))
    assert json.loads((folder.folder / "metrics.json").read_text())["overall_score"] == 0.5
    beside = sorted(other.name for other in folder.folder.parent.iterdir())
    assert beside == ["1-1", "1-1.1", "1-1.2"]


def test_an_attempt_begins_though_another_run_removed_its_cell_s_empty_folder(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_runs = [1, 2]

    def make(folder: Path) -> list[Path]:
        made = make_folders(folder)
        if other_runs and other_runs.pop():
            folder.rmdir()
        return made

    layout.attempts_of(CELL.fingerprint).mkdir(parents=True)
    monkeypatch.setattr(write, "make_folders", make)
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(0))
    folder.seal(CELL, CELL.id, verdict(1.0))
    assert folder.first
    assert not other_runs


def test_two_attempts_of_one_name_spoil_nothing_of_each_other(layout: Layout) -> None:
    """As after a server lost a claim: both are at work."""
    first, second = (AttemptFolder(layout.attempt(LEASE)) for _ in range(2))
    for folder, answer in ((first, "first"), (second, "second")):
        folder.record(line(0, answer))
        folder.append("raw.bin", answer.encode())
    first.fail(BROKEN)
    second.seal(CELL, CELL.id, verdict(1.0))
    assert (second.folder / "raw.bin").read_bytes() == b"second"
    assert not (second.folder / "failure.json").exists()
    assert layout.attempts_called(CELL.fingerprint, "1-1") == [second.folder, first.folder]
    first.discard()
    assert second.folder.is_dir()


def test_leftovers_that_cannot_be_removed_are_no_harm(ordinary_user: OrdinaryUser) -> None:
    outer = Path(tempfile.mkdtemp())
    outer.chmod(0o777)
    layout = Layout(outer / "study")

    def published() -> None:
        folder, _ = sealed_folder(layout)
        folder.parent.chmod(0o333)  # nobody may list it
        publish(folder, layout.published(CELL.id))

    try:
        assert ordinary_user(published) == "nothing was raised"
        assert (layout.published(CELL.id) / "cell.json").exists()
    finally:
        shutil.rmtree(outer)
