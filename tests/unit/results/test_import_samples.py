"""Which lines of another folder's samples are taken over, and what is left out by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchfleet.errors import ResultsError
from benchfleet.results.import_samples import import_samples, keep_samples
from benchfleet.results.layout import Layout
from benchfleet.testing import sample_cell
from study import SAMPLES, Study

GOOD: dict[str, Any] = {
    "index": 0,
    "id": "s0",
    "columns": {"question": "?"},
    "predicted_answer": "42",
}
OURS = "f" * 64


def taken(folder: Path, *lines: str) -> list[dict[str, Any]]:
    """What is kept of a file with these lines."""
    source, layout = folder / "samples.jsonl", Layout(folder / "study")
    source.write_text("".join(lines))
    number = keep_samples(layout, OURS, source)
    if not number:
        assert not layout.attempts_of(OURS).exists()
        return []
    (kept,) = layout.attempts_of(OURS).rglob("samples.jsonl")
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(rows) == number
    return rows


def test_a_sample_is_taken_with_what_is_known_and_without_its_score(tmp_path: Path) -> None:
    line = {**GOOD, "score": 1.0, "finish": "stop", "thought": {}, "seconds": 2, "draw": "x"}
    (row,) = taken(tmp_path, json.dumps(line) + "\n")
    counts = {"prompt_tokens": 0, "completion_tokens": 0}
    assert row == {**GOOD, **counts, "finish": "stop", "seconds": 2, "measures": {}}


@pytest.mark.parametrize(
    "changed",
    [
        {"index": True},
        {"index": "0"},
        {"id": 3},
        {"columns": []},
        {"predicted_answer": None},
        {"prompt_tokens": -1},
        {"completion_tokens": 2.5},
        {"seconds": "long"},
        {"measures": []},
        {"resume": 1},
    ],
    ids=str,
)
def test_a_line_of_another_shape_is_no_sample(tmp_path: Path, changed: dict[str, Any]) -> None:
    wrong = json.dumps({**GOOD, **changed}) + "\n"
    assert taken(tmp_path, wrong) == []
    right = json.dumps({**GOOD, "index": 1}) + "\n"
    assert [row["index"] for row in taken(tmp_path, wrong, right)] == [1]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}\n",
        "[1]\n",
        "3\n",
        "null\n",
        "{\n",
        "[" * 100_000 + "\n",
        json.dumps({**GOOD, "seconds": float("nan")}) + "\n",
        json.dumps({**GOOD, "columns": {"x": float("inf")}}) + "\n",
        json.dumps(GOOD).replace("42", "4")[:-3],
    ],
    ids=["empty", "object", "list", "number", "null", "cut", "deep", "nan", "inf", "torn"],
)
def test_what_is_no_sample_is_not_taken(tmp_path: Path, line: str) -> None:
    assert taken(tmp_path, line) == []


def test_a_withdrawn_sample_is_not_taken(tmp_path: Path) -> None:
    lines = [json.dumps({**GOOD, "withdrawn": withdrawn}) + "\n" for withdrawn in (False, True)]
    assert taken(tmp_path, *lines) == []


@pytest.fixture
def other(tmp_path: Path) -> Study:
    """Another campaign with two results."""
    return Study(tmp_path / "other")


def test_lines_that_are_no_samples_are_counted(other: Study, tmp_path: Path) -> None:
    wanted = other.record(other.one).fingerprint
    attempt = other.layout.attempts_of(wanted) / "1-1"
    attempt.mkdir(parents=True)
    lines = [json.dumps({**GOOD, "index": index}) + "\n" for index in range(SAMPLES + 1)]
    (attempt / "samples.jsonl").write_text("".join([*lines, "no\n", "[]\n", '{"index": 9']))
    layout = Layout(tmp_path / "mine")
    found = import_samples(other.layout.root, layout, "mine", [wanted])
    assert (found.samples, found.cells) == (SAMPLES + 1, 1)  # the attempt got furthest
    assert found.left_out == (f"2 lines of {attempt / 'samples.jsonl'} are not samples",)


def test_a_published_result_that_was_changed_is_left_out_by_name(
    other: Study, tmp_path: Path
) -> None:
    with (other.folder(other.one) / "samples.jsonl").open("a") as file:
        file.write(json.dumps(GOOD) + "\n")
    seal = other.folder(other.two) / "cell.json"
    foreign = {**json.loads(seal.read_text()), "cell": sample_cell(9).to_dict()}
    seal.write_text(json.dumps(foreign))
    wanted = [other.record(path).fingerprint for path in (other.one, other.two)]
    found = import_samples(other.layout.root, Layout(tmp_path / "mine"), "mine", wanted)
    assert (found.samples, found.cells) == (0, 0)
    assert sorted(found.left_out) == [
        f"{other.folder(other.one)}: samples.jsonl is not as it was sealed",
        f"{other.folder(other.two)}: its fingerprint is not that of its cell",
    ]


def test_a_checkpoint_file_leads_to_its_folder_also_where_that_was_moved(
    other: Study, tmp_path: Path
) -> None:
    root = tmp_path / "moved"
    shutil.move(other.layout.root, root)
    summary = root / "execution_summary.json"
    summary.write_text(json.dumps({"results": str(other.layout.root)}))
    wanted = [other.record(other.one).fingerprint]
    found = import_samples(summary, Layout(tmp_path / "mine"), "mine", wanted)
    assert (found.samples, found.cells, found.left_out) == (SAMPLES, 1, ())
    summary.write_text("[]")
    with pytest.raises(ResultsError, match="is not a checkpoint"):
        import_samples(summary, Layout(tmp_path / "mine"), "mine", wanted)


def test_there_is_nothing_to_resume_from_nowhere_or_from_the_campaign_itself(
    other: Study, tmp_path: Path
) -> None:
    with pytest.raises(ResultsError, match="not found; name the folder to resume from"):
        import_samples(tmp_path / "no", other.layout, "study", [])
    for source in (other.layout.root, other.layout.root.parent):
        with pytest.raises(ResultsError, match="it goes on from these by itself"):
            import_samples(source, other.layout, other.layout.root.name, [])
