"""An attempt's folder on a real disk: sealed, published, never overwritten, read back."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Lease
from benchfleet.domain.failure import Failure
from benchfleet.errors import ResultsError
from benchfleet.results.disk import EmptyFolders, write_atomically
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.read import (
    damage,
    log_tail,
    published_folders,
    sample_scores,
    sealed,
    sealed_attempts,
)
from benchfleet.results.samples import earlier_samples, read_samples
from benchfleet.results.write import (
    AttemptFolder,
    Verdict,
)
from benchfleet.testing.samples import sample_cell

OrdinaryUser = Callable[[Callable[[], object]], str]

CELL = sample_cell()
BROKEN = Failure(stage="collect", kind="bad_result", message="no score")
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


def test_a_benchmark_that_writes_its_own_results_keeps_them(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.append("raw_results.csv", b"mine")
    folder.seal(CELL, CELL.id, verdict())
    assert (folder.folder / "raw_results.csv").read_bytes() == b"mine"


def test_samples_that_come_right_before_the_verdict_are_written_once(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.hold(line(1))
    folder.hold(line(0))
    assert not (folder.folder / "samples.jsonl").exists()
    folder.seal(CELL, CELL.id, verdict(1.0, 0.0))
    assert sample_scores(folder.folder) == {"s0": 1.0, "s1": 0.0}


def test_held_samples_stand_after_those_that_were_kept(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(0, "first"))
    folder.hold(line(1) + line(0, "again"))
    folder.seal(CELL, CELL.id, verdict(1.0, 0.0))
    found = read_samples(folder.folder / "samples.jsonl")
    assert [found[index]["predicted_answer"] for index in (0, 1)] == ["again", "yes"]


@pytest.mark.parametrize("end", [AttemptFolder.close, lambda folder: folder.fail(BROKEN)])
def test_held_samples_serve_the_next_attempt_however_this_one_ends(
    layout: Layout, end: Callable[[AttemptFolder], None]
) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.hold(line(0))
    with pytest.raises(ValueError, match="2 samples were scored"):
        folder.seal(CELL, CELL.id, verdict(1.0, 0.0))
    end(folder)
    assert earlier_samples(layout.attempts_of(CELL.fingerprint)) == line(0)


def test_a_folder_left_empty_becomes_the_next_one(tmp_path: Path) -> None:
    empty = EmptyFolders()
    assert empty.make(tmp_path / "all" / "one") == [tmp_path, tmp_path / "all"]
    made = (tmp_path / "all" / "one").stat().st_ino
    empty.leave(tmp_path / "all" / "one")
    assert empty.make(tmp_path / "all" / "two") == [tmp_path / "all"]
    assert [(f.name, f.stat().st_ino) for f in (tmp_path / "all").iterdir()] == [("two", made)]


def test_a_folder_that_is_used_again_or_gone_is_not_taken(tmp_path: Path) -> None:
    empty = EmptyFolders()
    for name in ("used", "gone"):
        (tmp_path / name).mkdir()
        empty.leave(tmp_path / name)
    (tmp_path / "used" / "rescored-1").mkdir()
    (tmp_path / "gone").rmdir()
    assert empty.make(tmp_path / "new") == [tmp_path]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "rescored-1", "used"]


def test_what_earlier_attempts_left_stays_where_it_is(tmp_path: Path) -> None:
    empty = EmptyFolders()
    empty.make(tmp_path / "one")
    (tmp_path / "two" / "1-1").mkdir(parents=True)
    empty.leave(tmp_path / "one")
    assert empty.make(tmp_path / "two") == []
    assert (tmp_path / "two" / "1-1").is_dir()
    empty.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["two"]


# What disks and processes do to an attempt

SMALL_DISK = """
import resource, signal, sys
from pathlib import Path
from benchfleet.results.samples import read_samples
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing.samples import sample_cell

def small(most):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

def line(index):
    answer = b"x" * 90
    return b'{"index": %d, "id": "s", "columns": {}, "predicted_answer": "%s"}\\n' % (index, answer)

score = {"overall": 1.0, "per_sample": [1.0] * 20, "tasks": {}, "summary": {}}
folder = AttemptFolder(Path(sys.argv[1]))
try:
    ACT
except OSError as error:
    print("refused,", len(read_samples(folder.folder / "samples.jsonl")), "samples kept")
"""


TORN = b'{"index": 1, "id": "s1", "col\n'


def on_a_small_disk(folder: Path, act: str) -> str:
    """What an attempt says in a process whose files may not grow beyond a size."""
    script = SMALL_DISK.replace("    ACT\n", textwrap.indent(textwrap.dedent(act), "    "))
    done = subprocess.run(
        env={k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")},
        args=[sys.executable, "-c", script, str(folder)],
        capture_output=True,
    )
    assert not done.stderr, done.stderr.decode()
    return done.stdout.decode().strip()


def test_a_sample_of_which_the_disk_takes_a_part_is_no_sample(tmp_path: Path) -> None:
    told = on_a_small_disk(
        tmp_path / "attempt",
        """
        folder.record(line(0))
        small(200)
        folder.record(line(1))
        """,
    )
    assert told == "refused, 1 samples kept"


def test_a_disk_that_gets_full_while_sealing_costs_no_recorded_sample(tmp_path: Path) -> None:
    told = on_a_small_disk(
        tmp_path / "attempt",
        """
        folder.record(b"".join(map(line, range(20))))
        small((folder.folder / "samples.jsonl").stat().st_size)
        (folder.folder / "raw_results.csv").touch()
        folder.seal(sample_cell(), "a/b/c", Verdict(score=score, seconds={}, provenance={}))
        """,
    )
    assert told == "refused, 20 samples kept"
    assert sorted(f.name for f in (tmp_path / "attempt").iterdir() if f.name.startswith(".")) == []


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


def test_a_sample_recorded_again_counts_once_with_its_last_answer(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    folder.record(line(0, "of older data") + line(0, "new"))
    made = folder.seal(CELL, CELL.id, verdict(1.0))
    assert made.metrics["samples"] == 1
    assert read_samples(folder.folder / "samples.jsonl")[0]["predicted_answer"] == "new"


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
        assert f"'{name}' is no plain file and was left out" in log
        assert not os.path.lexists(folder.folder / name)
    assert (outside / "secret").read_text() == "not ours"


def test_a_log_that_is_a_pipe_holds_nobody_up(layout: Layout) -> None:
    folder = AttemptFolder(layout.attempt(LEASE))
    os.mkfifo(folder.log)
    assert log_tail(folder.log) == ""
    folder.seal(CELL, CELL.id, verdict())
    assert "'log.txt' is no plain file" in folder.log.read_text()


def test_an_attempt_never_goes_on_in_a_folder_of_another_one(layout: Layout) -> None:
    """After a rebuild the ledger's tokens begin anew, and so do the names of attempts."""
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


def test_links_out_of_the_tree_are_not_followed(layout: Layout, tmp_path: Path) -> None:
    folder, _ = sealed_folder(layout)
    outside = tmp_path / "outside" / "config" / "benchmark"
    publish(folder, outside)
    (layout.root / "model").symlink_to(tmp_path / "outside")
    assert list(published_folders(layout.root)) == []


@pytest.mark.parametrize(
    "name", ["../../secret", "/etc/hostname", "deep/../metrics.json", "", ".", "deep//x", "a\0b"]
)
def test_only_files_of_the_folder_are_compared_with_its_manifest(layout: Layout, name: str) -> None:
    folder, _ = sealed_folder(layout)
    assert damage(folder, {"files": {name: "0" * 64}}) == f"{name!r} is no file of its folder"


def test_links_and_pipes_are_no_files_of_a_manifest(layout: Layout, tmp_path: Path) -> None:
    folder, _ = sealed_folder(layout)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"")
    (folder / "folder").symlink_to(tmp_path / "outside")
    (folder / "link").symlink_to(folder / "metrics.json")
    os.mkfifo(folder / "pipe")
    empty = hashlib.sha256(b"").hexdigest()
    assert damage(folder, {"files": {"folder/x": empty}}) == "'folder/x' is no file of its folder"
    for name in ("link", "pipe"):
        assert damage(folder, {"files": {name: empty}}) == f"{name} is missing"


@pytest.mark.parametrize("other", [99, 0, None, "1"])
def test_a_result_of_another_format_is_refused_by_name(layout: Layout, other: object) -> None:
    folder, _ = sealed_folder(layout)
    content = json.loads((folder / "cell.json").read_text())
    (folder / "cell.json").write_text(json.dumps({**content, "format": other}))
    with pytest.raises(ResultsError, match=re.escape(f"has the results format {other!r}")):
        sealed(folder)


def test_a_cell_json_that_is_a_pipe_holds_nobody_up(layout: Layout) -> None:
    folder, _ = sealed_folder(layout)
    (folder / "cell.json").unlink()
    os.mkfifo(folder / "cell.json")
    with pytest.raises(ResultsError, match="no plain file"):
        sealed(folder)
    assert sealed_attempts(layout) == {}


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
        write_atomically(file, json.dumps({"number": number}))
    assert json.loads(file.read_text()) == {"number": 2}
    assert list(tmp_path.iterdir()) == [file]
