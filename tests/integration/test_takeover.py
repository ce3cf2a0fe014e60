"""Samples of other results folders, as they may lie there: whole, torn, wrong, of other cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import Lease
from benchfleet.domain.cell import Cell
from benchfleet.errors import ResultsError
from benchfleet.results.import_samples import ImportedSamples, import_samples
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.samples import earlier_samples
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing.sample_cells import sample_cell

CELL = sample_cell(1)


def line(number: int, **given: Any) -> dict[str, Any]:
    sample = {"index": number, "id": f"s{number}", "columns": {"q": "?"}, "predicted_answer": "yes"}
    return {**sample, **given}


def attempted(root: Path, cell: Cell, *lines: Any, number: int = 1) -> AttemptFolder:
    """An attempt that was interrupted."""
    lease = Lease(fingerprint=cell.fingerprint, attempt=number, token=number, expires_in=60.0)
    folder = AttemptFolder(Layout(root).attempt(lease))
    for one in lines:
        folder.record(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n")
    folder.close()
    return folder


def published(root: Path, cell: Cell, count: int) -> Path:
    folder = attempted(root, cell, *map(line, range(count)))
    scores = [0.5] * count
    score = {"overall": 0.5, "per_sample": scores, "tasks": {}, "summary": {}}
    folder.seal(cell, str(cell.id), Verdict(score=score, seconds={}, provenance={}))
    publish(folder.folder, root / cell.id)
    return root / cell.id


@pytest.fixture
def other(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


@pytest.fixture
def here(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "here")


def taken(other: Path, here: Layout, *cells: Cell) -> tuple[ImportedSamples, list[dict[str, Any]]]:
    wanted = {str(cell.fingerprint) for cell in cells or (CELL,)}
    found = import_samples(other, here, "study", wanted)
    kept = earlier_samples(here.attempts_of(CELL.fingerprint))
    return found, [json.loads(one) for one in kept.splitlines()]


def test_an_attempt_s_samples_are_those_of_the_next_one_here(other: Path, here: Layout) -> None:
    attempted(other, CELL, line(0), line(1, resume={"asked": []}), line(-1))
    found, samples = taken(other, here)
    assert found == ImportedSamples(samples=2, cells=1, left_out=())
    assert [sample["index"] for sample in samples] == [0, 1, -1]
    assert samples[1]["resume"] == {"asked": []}


def test_published_samples_come_without_their_scores(other: Path, here: Layout) -> None:
    published(other, CELL, 3)
    found, samples = taken(other, here)
    assert (found.samples, found.cells) == (3, 1)
    assert not any("score" in sample for sample in samples)
    assert samples[2]["predicted_answer"] == "yes"


def test_the_attempt_that_got_furthest_counts_here_too(other: Path, here: Layout) -> None:
    attempted(other, CELL, line(0), number=1)
    attempted(other, CELL, line(0), line(1), line(2), number=2)
    attempted(here.root, CELL, *map(line, range(5)), number=1)
    assert len(taken(other, here)[1]) == 5
    attempted(other, CELL, *map(line, range(9)), number=3)
    assert len(taken(other, here)[1]) == 9


def test_cells_of_another_content_are_left_alone(other: Path, here: Layout) -> None:
    attempted(other, sample_cell(1, version="2"), line(0))
    published(other, sample_cell(1, version="3"), 2)
    assert taken(other, here) == (ImportedSamples(samples=0, cells=0, left_out=()), [])
    assert not here.root.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        b"not JSON\n",
        b"[1, 2]\n",
        line(3, index="3"),
        line(3, index=True),
        line(3, id=3),
        line(3, columns=[]),
        line(3, predicted_answer=None),
        line(3, prompt_tokens=-1),
        line(3, seconds="long"),
        line(3, measures=[]),
        b'{"index": 3, "id": "x", "columns": {"a": NaN}, "predicted_answer": ""}\n',
        {"index": 3},
    ],
)
def test_lines_that_are_no_samples_are_left_out_and_said(
    other: Path, here: Layout, wrong: Any
) -> None:
    folder = attempted(other, CELL, line(0), wrong, line(1)).folder
    found, samples = taken(other, here)
    assert [sample["index"] for sample in samples] == [0, 1]
    assert found.left_out == (f"1 lines of {folder / 'samples.jsonl'} are not samples",)


def test_a_line_torn_by_a_crash_is_passed_over(other: Path, here: Layout) -> None:
    attempted(other, CELL, line(0), b'{"index": 1, "id": "s')
    found, samples = taken(other, here)
    assert (len(samples), found.left_out) == (1, ())


def test_published_results_that_were_changed_since_are_left_out(other: Path, here: Layout) -> None:
    folder = published(other, CELL, 2)
    (folder / "samples.jsonl").write_text(json.dumps(line(0)) + "\n")
    found, samples = taken(other, here)
    assert samples == []
    assert found.left_out == (f"{folder}: samples.jsonl is not as it was sealed",)


def test_a_fingerprint_that_is_not_that_of_its_cell_is_left_out(other: Path, here: Layout) -> None:
    folder = published(other, sample_cell(2), 2)
    content = json.loads((folder / "cell.json").read_text())
    content["fingerprint"] = str(CELL.fingerprint)
    (folder / "cell.json").write_text(json.dumps(content))
    found, samples = taken(other, here)
    assert samples == []
    assert found.left_out == (f"{folder}: its fingerprint is not that of its cell",)


def test_the_folder_above_that_of_the_campaign_will_do(other: Path, here: Layout) -> None:
    attempted(other / "study", CELL, line(0))
    assert taken(other, here)[0].samples == 1


def test_links_are_not_followed(other: Path, here: Layout, tmp_path: Path) -> None:
    folder = attempted(other, CELL, line(0)).folder
    (folder / "samples.jsonl").rename(tmp_path / "elsewhere")
    (folder / "samples.jsonl").symlink_to(tmp_path / "elsewhere")
    assert taken(other, here)[0].samples == 0


def test_a_folder_that_cannot_be_resumed_from_is_reported(other: Path, here: Layout) -> None:
    with pytest.raises(ResultsError, match="results folder"):
        taken(other / "nowhere", here)
    here.root.mkdir()
    with pytest.raises(ResultsError, match="goes on from these by itself"):
        taken(here.root, here)
