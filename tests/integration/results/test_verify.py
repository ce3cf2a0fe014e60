"""Results held against seal and ledger, broken in every way a tree can be, and put right again."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.event import Event
from benchfleet.maintenance.repair import Repaired, repair
from benchfleet.results.publish import publish
from benchfleet.results.samples import earlier_samples
from benchfleet.results.stores.folder import FolderStore
from benchfleet.results.transfer.download import download_results
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing import sample_cell
from study import Study


def cut(folder: Path) -> None:
    file = folder / "samples.jsonl"
    file.write_bytes(file.read_bytes()[:-20])


def half_written(folder: Path) -> None:
    for name in ("metrics.json", "cell.json", "raw_results.csv"):
        (folder / name).unlink()


def emptied(folder: Path) -> None:
    for name in ("metrics.json", "cell.json"):
        (folder / name).write_bytes(b"")


def edited_metrics(folder: Path) -> None:
    file = folder / "metrics.json"
    file.write_text(file.read_text().replace("0.5", "0.9"))


def edited_cell(folder: Path) -> None:
    file = folder / "cell.json"
    file.write_text(file.read_text().replace("0.5", "0.9"))


def no_log(folder: Path) -> None:
    (folder / "log.txt").unlink()


def no_extra(folder: Path) -> None:
    shutil.rmtree(folder / "extra")


def file_as_link(folder: Path) -> None:
    kept = folder.parents[3] / "kept.csv"
    os.rename(folder / "raw_results.csv", kept)
    (folder / "raw_results.csv").symlink_to(kept)


def torn_packing(folder: Path) -> None:
    packed = gzip.compress((folder / "extra/raw.bin").read_bytes())
    (folder / "extra/raw.bin.gz").write_bytes(packed[:-6])
    (folder / "extra/raw.bin").unlink()


DAMAGE = [
    cut,
    half_written,
    emptied,
    edited_metrics,
    edited_cell,
    no_log,
    no_extra,
    file_as_link,
    torn_packing,
]


def test_what_is_as_it_was_sealed_is_good(study: Study) -> None:
    assert study.look() == study.look(quick=True) == []
    assert study.repair() == []


@pytest.mark.parametrize("harm", DAMAGE)
def test_damage_is_reported_and_run_again_and_the_old_is_kept(
    study: Study, harm: Callable[[Path], None]
) -> None:
    harm(study.folder(study.one))
    assert study.kinds() == {study.one: "damaged"}
    study.repair()
    assert study.states() == {study.one: "pending", study.two: "success"}
    assert not study.folder(study.one).exists()
    assert (study.layout.evidence / "now" / study.one / "samples.jsonl").exists()
    asked = study.ledger.events(kinds=["retry_asked"])
    assert [event.data["reason"].startswith("verify: ") for event in asked] == [True]
    assert study.look() == []
    assert study.repair("later") == []
    study.finish(sample_cell(1))
    assert study.look() == []


@pytest.mark.parametrize("harm", [half_written, emptied, edited_cell, no_log, no_extra])
def test_a_quick_look_sees_what_is_missing_and_what_is_not_the_ledgers(
    study: Study, harm: Callable[[Path], None]
) -> None:
    harm(study.folder(study.one))
    assert study.kinds(quick=True) == {study.one: "damaged"}


def test_samples_that_are_as_they_were_are_not_asked_again(study: Study) -> None:
    edited_metrics(study.folder(study.one))
    assert "with 3 samples" in study.repair()[-1].detail
    attempts = study.layout.attempts_of(study.record(study.one).fingerprint)
    kept = [json.loads(line) for line in earlier_samples(attempts).splitlines()]
    assert [record["index"] for record in kept] == [0, 1, 2]
    assert not any("score" in record for record in kept)


def test_samples_that_were_changed_are_not_taken_again(study: Study) -> None:
    cut(study.folder(study.one))
    assert study.repair()[-1] == Repaired(path=study.one, act="pending again")
    assert not study.layout.attempts_of(study.record(study.one).fingerprint).exists()


def test_a_damaged_result_goes_with_what_was_never_sealed(study: Study) -> None:
    no_log(study.folder(study.one))
    (study.folder(study.one) / "notes.txt").write_text("mine")
    assert study.kinds() == {study.one: "damaged"}
    study.repair()
    assert (study.layout.evidence / "now" / study.one / "notes.txt").read_text() == "mine"


def outdate(study: Study) -> Path:
    """Publish cell 1 a second time, and put the first result back in its place."""
    first, record = study.folder(study.one), study.record(study.one)
    os.rename(first, first.with_name("first"))
    study.ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))
    study.finish(sample_cell(1), before=lambda folder: folder.append("extra/more.bin", b"more"))
    second = study.layout.root.parent / "second"
    os.rename(study.folder(study.one), second)
    os.rename(first.with_name("first"), first)
    return second


def test_an_older_result_of_the_same_cell_is_outdated_and_not_damaged(study: Study) -> None:
    outdate(study)
    assert study.kinds() == {study.one: "outdated"}
    assert study.kinds(quick=True) == {study.one: "damaged"}
    cut(study.folder(study.one))
    assert study.kinds() == {study.one: "damaged"}


def test_a_result_that_another_place_has_is_not_run_again(study: Study) -> None:
    outdate(study)
    findings = [replace(one, elsewhere="lab1") for one in study.look()]
    done = list(repair(study.ledger, study.layout, findings, moment="now"))
    assert [(one.path, one.act) for one in done] == [(study.one, "kept as evidence")]
    assert set(study.states().values()) == {"success"}
    assert study.kinds() == {study.one: "gone"}


def test_an_older_result_runs_again_where_no_place_has_the_one_of_the_ledger(study: Study) -> None:
    outdate(study)
    study.repair()
    assert study.states()[study.one] == "pending"
    assert study.evidence() == {study.one}


def test_a_download_replaces_what_is_not_the_result_of_the_ledger(study: Study) -> None:
    second = outdate(study)
    store = study.layout.root.parent / "store"
    (store / study.one).parent.mkdir(parents=True)
    os.rename(second, store / study.one)
    records = [study.record(study.one), study.record(study.two)]
    downloads = download_results(study.layout, records, [FolderStore(store.as_uri(), "")])
    assert list(downloads.came) == [study.one]
    (evidence,) = downloads.replaced.values()
    assert (study.layout.root / evidence / "cell.json").exists()
    assert study.look() == []


def test_numbers_that_the_samples_do_not_make_are_reported(study: Study) -> None:
    cell = sample_cell(4)
    claim = study.claim(cell)
    folder = AttemptFolder(study.layout.attempt(claim.lease))
    verdict = Verdict(
        score={"overall": 0.5, "per_sample": [], "tasks": {}, "summary": {}},
        seconds={},
        provenance={},
    )
    sealed = folder.seal(cell, claim.path, verdict)
    output = {**sealed.metrics, "overall_score": 0.9, "samples": 7}
    study.ledger.finish(claim.lease, Outcome(state="success", digest=sealed.digest, metrics=output))
    publish(folder.folder, study.folder(claim.path))
    (found,) = study.look()
    assert found.kind == "damaged"
    assert "overall_score is 0.5, and the ledger has 0.9" in found.message
    assert [done.act for done in study.repair()] == ["kept as evidence", "pending again"]
    assert study.states()[claim.path] == "pending"


def test_a_repair_that_was_cut_short_is_ended_by_the_next(study: Study) -> None:
    """After the move, before the ledger heard of it; one was damaged, the other was only swapped
    away and is whole."""
    no_log(study.folder(study.one))
    for path in (study.one, study.two):
        kept = study.layout.evidence / "before" / path
        kept.parent.mkdir(parents=True, exist_ok=True)
        study.folder(path).rename(kept)
    assert {done.path: done.act for done in study.repair()} == {
        study.one: "pending again",
        study.two: "put back",
    }
    assert study.look() == []


def test_evidence_is_never_overwritten(study: Study) -> None:
    for _ in range(2):
        no_log(study.folder(study.one))
        study.repair("now")
        study.finish(sample_cell(1))
    kept = {folder.name for folder in study.layout.evidence.iterdir()}
    assert kept == {"now", "now.1"}
