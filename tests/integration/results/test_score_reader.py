"""Scores that processes read ahead are those that one process reads."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from benchfleet.results import score_reader
from benchfleet.results.disk import digest_of
from benchfleet.results.read import SampleScores, sample_scores
from benchfleet.results.score_reader import ScoreReader
from benchfleet.testing import sample_cell
from study import Study

CELLS = 7
Result = tuple[str, str]  # path, digest of its cell.json


@pytest.fixture
def results(study: Study, monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """Enough results for each process to read some, in two batches."""
    monkeypatch.setattr(score_reader, "_LEAST_RESULTS", 1)
    monkeypatch.setattr(score_reader, "_BATCH_RESULTS", 2)
    monkeypatch.setattr(score_reader, "_PROCESSES", 2)
    for number in range(3, CELLS + 1):
        study.finish(sample_cell(number))
    records = study.ledger.cells()
    return [(one.path, one.outcome.digest) for one in records if one.outcome]


def reader_of(study: Study, results: list[Result]) -> ScoreReader:
    return ScoreReader(study.layout.root, [path for path, _ in results])


def one_by_one(study: Study, results: list[Result]) -> list[SampleScores]:
    return [sample_scores(study.folder(path)) for path, _ in results]


def test_scores_are_the_same_in_any_order(study: Study, results: list[Result]) -> None:
    assert len(results) == CELLS
    reader = reader_of(study, results)
    assert [reader(*one) for one in results] == one_by_one(study, results)
    assert [reader(*one) for one in results] == one_by_one(study, results)
    reader = reader_of(study, results)
    assert [reader(*one) for one in reversed(results)] == one_by_one(study, results[::-1])


def test_a_result_that_is_not_the_ledgers_has_no_scores(
    study: Study, results: list[Result]
) -> None:
    results[0] = results[0][0], "0" * 64
    shutil.rmtree(study.folder(results[3][0]))
    reader = reader_of(study, results)
    read = [reader(*one) for one in results]
    assert [bool(one.scores) for one in read] == [False, True, True, False, True, True, True]


def change_samples(study: Study, path: str) -> str:
    """Write a sample whose score is no number; the digest of the file."""
    samples = study.folder(path) / "samples.jsonl"
    samples.write_text('{"index": 0, "id": "s0", "score": "high"}\n')
    return digest_of(samples)


def test_samples_that_were_changed_have_no_scores(study: Study, results: list[Result]) -> None:
    change_samples(study, results[1][0])
    for reader in reader_of(study, results), ScoreReader(study.layout.root, []):
        read = [reader(*one) for one in results]
        assert [bool(one.scores) for one in read] == [True, False, *[True] * 5]


def test_the_error_of_a_result_is_raised_where_it_is_asked_for(
    study: Study, results: list[Result]
) -> None:
    path = results[1][0]
    file = study.folder(path) / "cell.json"
    seal = json.loads(file.read_text())
    seal["files"]["samples.jsonl"] = change_samples(study, path)
    file.write_text(json.dumps(seal))
    results[1] = path, digest_of(file)
    reader = reader_of(study, results)
    assert reader(*results[0]).scores
    with pytest.raises(ValueError, match="high"):
        reader(*results[1])
    assert reader(*results[2]).scores


def test_all_are_read_where_the_processes_die(
    study: Study, results: list[Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_reader, "_PROGRAM", [sys.executable, "-c", "raise SystemExit(1)"])
    reader = reader_of(study, results)
    assert [reader(*one) for one in results] == one_by_one(study, results)


def test_nothing_runs_on_where_nobody_asks(
    study: Study, results: list[Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = pickle.dumps({results[0][0]: None})
    endless = f"import sys, time; sys.stdout.buffer.write({batch!r}); sys.stdout.flush()"
    program = [sys.executable, "-c", f"{endless}; time.sleep(600)"]
    monkeypatch.setattr(score_reader, "_PROGRAM", program)
    before = {*psutil.Process().children()}
    reader = reader_of(study, results)
    reader(*results[0])
    assert len({*psutil.Process().children()} - before) == 2
    del reader
    assert {*psutil.Process().children()} - before == set()


def test_modules_in_the_users_folder_are_not_imported(
    study: Study, results: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    expected = one_by_one(study, results)
    monkeypatch.delattr(score_reader, "_read")  # what this process reads itself
    reader = reader_of(study, results)
    assert [reader(*one) for one in results] == expected
