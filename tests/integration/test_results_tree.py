"""An attempt's folder on a real disk: sealed, published, never overwritten, read back."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Lease
from benchfleet.domain.failure import Failure
from benchfleet.errors import ResultsError
from benchfleet.results.layout import Layout
from benchfleet.results.read import published_folders, sample_scores, sealed
from benchfleet.results.write import (
    AttemptFolder,
    Verdict,
    earlier_samples,
    log_tail,
    publish,
    read_samples,
    write_atomically,
)
from benchfleet.testing.samples import sample_cell

CELL = sample_cell()
LEASE = Lease(fingerprint=CELL.fingerprint, attempt=1, token=1, expires_in=60)


def line(index: int, answer: str = "yes") -> bytes:
    record = {
        "index": index,
        "id": f"s{index}",
        "columns": {"question": 'What, "exactly",\nis it?'},
        "predicted_answer": answer,
    }
    return json.dumps(record).encode() + b"\n"


def verdict(*scores: float) -> Verdict:
    score = {"overall": 0.5, "per_sample": list(scores), "tasks": {"a": 1}, "summary": {}}
    return Verdict(score=score, seconds={"benchmark": 1.0}, provenance={"host": "here"})


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "study")


def sealed_folder(layout: Layout) -> tuple[Path, str]:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(1) + line(0, "an answer\nof two lines"))
    made = folder.seal(CELL, CELL.id, verdict(1.0, 0.0))
    return folder.folder, made.digest


def test_a_sealed_folder_names_the_digest_of_every_file(layout: Layout) -> None:
    folder, digest = sealed_folder(layout)
    content, found = sealed(folder)
    assert found == digest
    for name, wanted in content["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == wanted
    assert set(content["files"]) == {file.name for file in folder.iterdir()} - {"cell.json"}


def test_samples_are_sealed_in_order_with_their_scores(layout: Layout) -> None:
    folder, _ = sealed_folder(layout)
    records = [json.loads(text) for text in (folder / "samples.jsonl").read_text().splitlines()]
    assert [(record["index"], record["score"]) for record in records] == [(0, 1.0), (1, 0.0)]
    assert sample_scores(folder) == {"s0": 1.0, "s1": 0.0}


def test_the_csv_has_the_columns_and_the_answer_on_one_line_each(layout: Layout) -> None:
    folder, _ = sealed_folder(layout)
    text = (folder / "raw_results.csv").read_text()
    assert len(text.splitlines()) == 3
    rows = list(csv.DictReader(text.splitlines()))
    assert rows[0]["predicted_answer"] == "an answer\\nof two lines"
    assert rows[0]["question"] == 'What, "exactly",\\nis it?'


def test_hostile_answers_survive_the_round_trip(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    answer = "\x00\udce9\u2028=cmd()"
    folder.record(line(0, answer))
    folder.seal(CELL, CELL.id, verdict(1.0))
    assert read_samples(folder.folder / "samples.jsonl")[0]["predicted_answer"] == answer
    (folder.folder / "raw_results.csv").read_text()


def test_publishing_moves_the_folder_and_tidies_up(layout: Layout) -> None:
    folder, _ = sealed_folder(layout)
    publish(folder, layout.published(CELL.id))
    assert list(published_folders(layout.root)) == [layout.published(CELL.id)]
    assert not layout.attempts_of(CELL.fingerprint).exists()


def test_nothing_is_ever_overwritten(layout: Layout) -> None:
    folder, _ = sealed_folder(layout)
    public = layout.published(CELL.id)
    public.mkdir(parents=True)
    (public / "precious").touch()
    with pytest.raises(ResultsError, match="cannot be published"):
        publish(folder, public)
    assert (public / "precious").exists()
    assert (folder / "cell.json").exists()


def test_publishing_what_another_runner_published_already_is_fine(layout: Layout) -> None:
    folder, _ = sealed_folder(layout)
    publish(folder, layout.published(CELL.id))
    publish(folder, layout.published(CELL.id))


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
        ".x",
        "cell.json",
        "samples.jsonl",
        "log.txt",
    ],
)
def test_a_file_from_a_slot_cannot_leave_its_folder(layout: Layout, name: str) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    with pytest.raises(ResultsError):
        folder.append(name, b"evil")
    folder.close()


def test_files_from_a_slot_arrive_in_pieces(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.append("plots/plot.bin", b"one ")
    folder.append("plots/plot.bin", b"two")
    folder.record(line(0))
    folder.seal(CELL, CELL.id, verdict(1.0))
    assert (folder.folder / "plots/plot.bin").read_bytes() == b"one two"
    assert "plots/plot.bin" in sealed(folder.folder)[0]["files"]


def test_a_benchmark_that_writes_its_own_results_keeps_them(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.append("raw_results.csv", b"mine")
    folder.seal(CELL, CELL.id, verdict())
    assert (folder.folder / "raw_results.csv").read_bytes() == b"mine"


def test_links_out_of_the_tree_are_not_followed(layout: Layout, tmp_path: Path) -> None:
    folder, _ = sealed_folder(layout)
    outside = tmp_path / "outside" / "config" / "benchmark"
    publish(folder, outside)
    (layout.root / "model").symlink_to(tmp_path / "outside")
    assert list(published_folders(layout.root)) == []


def test_the_tail_of_a_huge_line_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"x" * 10**6 + b"\nthe end")
    tail = log_tail(log)
    assert tail.endswith("the end")
    assert len(tail) <= 8192
    assert log_tail(tmp_path / "none") == ""


def test_a_summary_is_replaced_in_one_step(tmp_path: Path) -> None:
    file = tmp_path / "execution_summary.json"
    for number in (1, 2):
        write_atomically(file, {"number": number})
    assert json.loads(file.read_text()) == {"number": 2}
    assert list(tmp_path.iterdir()) == [file]
