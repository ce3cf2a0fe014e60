"""What a sealed and a published folder hold, and that nothing is overwritten."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.read import (
    log_tail,
    published_folders,
    sample_scores,
    sealed,
)
from benchfleet.results.samples import read_samples
from benchfleet.results.write import (
    AttemptFolder,
)

from .conftest import CELL, LEASE, line, sealed_folder, verdict


def test_a_sealed_folder_names_the_digest_of_every_file(layout: Layout) -> None:
    folder, digest = sealed_folder(layout)
    content, found = sealed(folder)
    assert found == digest
    for name, wanted in content["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == wanted
    assert set(content["files"]) == {file.name for file in folder.iterdir()} - {"cell.json"}
    page = (Path(__file__).parents[3] / "docs" / "formats.md").read_text("utf-8")
    (keys,) = re.findall(r"^The keys of `cell.json`:\n(.*?)\n\n[^|]", page, re.M | re.S)
    cells = [row.split("|")[1] for row in keys.strip().splitlines()]
    explained = {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}
    assert explained - {"reported", "measures"} == set(content)  # only if there are any


def test_samples_are_sealed_in_order_with_their_scores(layout: Layout) -> None:
    folder, _ = sealed_folder(layout)
    records = [json.loads(text) for text in (folder / "samples.jsonl").read_text().splitlines()]
    assert [(record["index"], record["score"]) for record in records] == [(0, 1.0), (1, 0.0)]
    assert sample_scores(folder).scores == {"s0": 1.0, "s1": 0.0}


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


def test_publishing_what_another_runner_published_already_is_fine(layout: Layout) -> None:
    folder, _ = sealed_folder(layout)
    publish(folder, layout.published(CELL.id))
    publish(folder, layout.published(CELL.id))


def test_a_benchmark_that_writes_its_own_results_keeps_them(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.append("raw_results.csv", b"mine")
    folder.seal(CELL, CELL.id, verdict())
    assert (folder.folder / "raw_results.csv").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("kept", "scores", "wanted"),
    [
        (
            line(0) + line(1)[:20] + b"\n" + line(2),
            (1.0, 1.0, 1.0),
            "3 samples were recorded, and 2",
        ),
        (line(0) + line(1)[:20] + b"\n" + line(2), (), "3 samples were recorded, and 2"),
        (line(0), (1.0, 1.0), "2 samples were scored, and 1"),
        (b"", (1.0,), "1 samples were scored, and 0"),
        (line(0) + line(1), (1.0,), "1 samples were scored, and 2"),
    ],
)
def test_a_result_whose_samples_are_not_all_there_is_refused(
    layout: Layout, kept: bytes, scores: tuple[float, ...], wanted: str
) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(kept)
    with pytest.raises(ValueError, match=wanted):
        folder.seal(CELL, CELL.id, verdict(*scores))
    assert not (folder.folder / "cell.json").exists()


def test_samples_that_somebody_removed_are_missed(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(0))
    (folder.folder / "samples.jsonl").write_bytes(b"")
    with pytest.raises(ValueError, match="1 samples were recorded, and 0"):
        folder.seal(CELL, CELL.id, verdict())


def test_a_benchmark_without_samples_has_a_result(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    assert folder.seal(CELL, CELL.id, verdict()).metrics["samples"] == 0


def test_links_pipes_and_sockets_are_left_out_and_the_log_says_so(
    layout: Layout, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("not ours")
    folder = AttemptFolder(layout.attempt(LEASE))
    (folder.folder / "deep").mkdir()
    os.mkfifo(folder.folder / "deep" / "pipe")
    (folder.folder / "link").symlink_to(outside / "secret")
    (folder.folder / "linked folder").symlink_to(outside)
    folder.seal(CELL, CELL.id, verdict())
    assert set(sealed(folder.folder)[0]["files"]) == {
        "config.json", "log.txt", "metrics.json", "raw_results.csv", "samples.jsonl",
    }  # fmt: skip
    log = (folder.folder / "log.txt").read_text()
    for name in ("deep/pipe", "link", "linked folder"):
        assert f"'{name}' is not a plain file and was left out" in log
        assert not os.path.lexists(folder.folder / name)
    assert (outside / "secret").read_text() == "not ours"


def test_a_log_that_is_a_pipe_holds_nobody_up(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    os.mkfifo(folder.log)
    assert log_tail(folder.log) == ""
    folder.seal(CELL, CELL.id, verdict())
    assert "'log.txt' is not a plain file" in folder.log.read_text()


def test_every_file_of_a_result_and_every_name_on_its_way_is_synced(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = set()
    fsync = os.fsync

    def noted(handle: int) -> None:
        fsync(handle)
        synced.add(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "fsync", noted)
    layout.root.parent.mkdir(exist_ok=True)
    folder, _ = sealed_folder(layout)
    kept = [folder, *folder.parents[:4], *(f for f in folder.iterdir() if f.stat().st_size)]
    assert {path.name for path in kept if path.stat().st_ino not in synced} == set()
    synced.clear()
    public = layout.published(CELL.id)
    publish(folder, public)
    for made in public.parents[:3]:
        assert made.stat().st_ino in synced, made
