"""Results, links and rubbish where they do not belong: what is moved back, aside, or reported."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from benchfleet.domain.event import Event
from benchfleet.maintenance.repair import Repaired
from benchfleet.results.incoming_check import refusal
from benchfleet.testing import sample_cell
from study import Study


def test_a_folder_that_was_deleted_is_run_again(study: Study) -> None:
    shutil.rmtree(study.folder(study.one))
    assert study.kinds() == {study.one: "gone"}
    assert study.repair() == [Repaired(path=study.one, act="pending again")]
    assert study.states()[study.one] == "pending"


def test_folders_that_were_swapped_go_home_and_nothing_is_run_again(study: Study) -> None:
    one, two, aside = study.folder(study.one), study.folder(study.two), study.layout.root / "aside"
    for source, target in ((one, aside), (two, one), (aside, two)):
        source.rename(target)
    assert study.kinds() == {study.one: "misplaced", study.two: "misplaced"}
    study.repair()
    assert study.look() == []
    assert study.states() == {study.one: "success", study.two: "success"}


def test_a_folder_that_was_renamed_goes_home(study: Study) -> None:
    aside = study.folder(study.one).with_name("aside")
    study.folder(study.one).rename(aside)
    assert sorted(study.kinds().values()) == ["gone", "unknown"]
    assert [done.act for done in study.repair()] == ["put back"]
    assert study.look() == []


def test_a_sealed_result_that_waits_is_put_at_its_place(study: Study) -> None:
    path = study.finish(sample_cell(3), rename=False)
    assert study.kinds() == {path: "unpublished"}
    study.repair()
    assert study.look() == []
    assert study.states()[path] == "success"


def test_a_result_that_waits_behind_rubbish_is_put_at_its_place(study: Study) -> None:
    path = study.finish(sample_cell(3), rename=False)
    study.folder(path).mkdir(parents=True)
    (study.folder(path) / "log.txt").write_text("mine")
    (found,) = study.look()
    assert (found.kind, "its own result waits" in found.message) == ("damaged", True)
    study.repair()
    assert study.look() == []
    assert study.evidence() == {path}


def test_the_result_of_another_campaign_is_known_by_its_cell(study: Study, tmp_path: Path) -> None:
    other = Study(tmp_path / "other")
    path = other.finish(sample_cell(1, version="2"))
    shutil.rmtree(study.folder(study.one))
    shutil.copytree(other.folder(path), study.folder(study.one))
    (found,) = study.look()
    assert (found.kind, "the result of another cell" in found.message) == ("foreign", True)
    study.repair()
    assert study.states()[study.one] == "pending"
    assert study.evidence() == {study.one}


def test_rubbish_where_a_pending_cell_will_publish_is_moved_aside(study: Study) -> None:
    cell = sample_cell(3)
    study.ledger.enroll([cell])
    study.folder(cell.id).mkdir(parents=True)
    (study.folder(cell.id) / "log.txt").write_text("mine")
    assert study.kinds() == {cell.id: "occupied"}
    study.repair()
    assert study.finish(cell) == cell.id
    assert study.look() == []


@pytest.mark.parametrize("place", ["tiny/dense/other", "tiny/dense/other/r1", "tiny/x/y"])
def test_a_result_that_the_ledger_does_not_know_is_reported_and_left(
    study: Study, place: str
) -> None:
    shutil.copytree(study.folder(study.one), study.layout.root / place)
    assert study.kinds() == {place: "unknown"}
    assert study.repair() == []
    assert (study.layout.root / place / "cell.json").exists()


def test_a_result_of_a_cell_that_the_ledger_has_as_pending_is_left_to_a_rebuild(
    study: Study,
) -> None:
    study.ledger.record(Event(kind="retry_asked", fingerprint=study.record(study.one).fingerprint))
    assert study.kinds() == {study.one: "unknown"}
    assert study.repair() == []
    assert study.folder(study.one).exists()


def test_a_link_on_the_way_is_reported_and_what_it_leads_to_is_left(
    study: Study, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    (study.layout.root / "tiny").rename(away)
    (study.layout.root / "tiny").symlink_to(away)
    assert study.kinds() == {study.one: "link", study.two: "link"}
    assert study.repair() == []
    assert sorted(os.listdir(away / "dense")) == ["benchmark-1", "benchmark-2"]


def test_a_link_beside_the_files_of_a_result_is_reported(study: Study) -> None:
    (study.folder(study.one) / "extra" / "passwd").symlink_to("/etc/passwd")
    (found,) = study.look()
    assert (found.kind, "extra/passwd" in found.message) == ("link", True)


@pytest.mark.parametrize("name", [".DS_Store", "extra/notes.txt", "log.txt.gz", "copy/cell.json"])
def test_a_file_that_was_never_sealed_goes_to_the_evidence_and_the_result_stays(
    study: Study, name: str
) -> None:
    file = study.folder(study.one) / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    record = study.record(study.one)
    digest = record.outcome.digest if record.outcome else ""
    where = (study.layout.root, study.one, record.fingerprint, digest)
    assert refusal(*where) == f"{name} is not in its seal"
    for quick in (False, True):
        (found,) = study.look(quick=quick)
        assert (found.kind, found.path) == ("extra", study.one)
        assert name in found.message
    kept = study.layout.evidence / "now" / study.one / name
    shown = kept.relative_to(study.layout.root).as_posix()
    assert study.repair() == [Repaired(path=study.one, act="kept as evidence", detail=shown)]
    assert kept.read_text() == "mine"
    assert study.look() == []
    assert study.states() == {study.one: "success", study.two: "success"}
    assert refusal(*where) == ""


def test_many_files_that_were_never_sealed_are_kept_each_and_listed_in_short(study: Study) -> None:
    for number in range(5):
        (study.folder(study.one) / f"plot-{number}.png").touch()
    (found,) = study.look()
    assert found.message == "plot-0.png, plot-1.png, plot-2.png and 2 more were never sealed"
    study.repair()
    (study.folder(study.one) / "plot-0.png").write_text("another")
    study.repair()
    kept = sorted(path.name for path in study.layout.evidence.rglob("*.png"))
    assert kept == ["plot-0.png", *(f"plot-{number}.png" for number in range(5))]
    assert study.look() == []


def test_files_beside_results_are_no_harm(study: Study) -> None:
    (study.layout.root / "tiny" / "notes.txt").write_text("mine")
    (study.layout.root / "plots").mkdir()
    assert study.look() == []


def test_what_may_not_be_read_is_reported_and_never_run_again(study: Study) -> None:
    file = study.folder(study.one) / "cell.json"
    file.rename(file.with_name("aside"))
    file.mkdir()
    assert study.kinds() == {study.one: "damaged"}
    shutil.rmtree(study.layout.root / "tiny")
    (study.layout.root / "tiny").write_text("a file")
    assert study.kinds() == {study.one: "unreadable", study.two: "unreadable"}
    assert study.repair() == []
    assert study.states() == {study.one: "success", study.two: "success"}
