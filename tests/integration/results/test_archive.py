"""Packing and deleting of a campaign's folder, and being cut short."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from benchfleet.errors import ResultsError
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.archive import archived_attempts
from benchfleet.results.incoming_check import refusal
from benchfleet.runner.recovery.rebuild import rebuild
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.testing import sample_cell
from study import Study

from .archives import LONG, archive, failed, grow_log, items, put_away, succeeded_late


def test_a_packed_log_is_as_good_as_the_log(study: Study) -> None:
    log = grow_log(study, 3)
    (item,) = items(study, "raw")
    took = archive(study).compress(item, None)
    assert took < len(LONG) / 10
    assert not log.exists()
    assert gzip.decompress(log.with_name("log.txt.gz").read_bytes()) == LONG
    assert study.look() == study.look(quick=True) == []
    assert items(study, "raw") == []
    again = MemoryLedger()
    assert (
        rebuild(again, study.layout, LocalHost()).entered,
        rebuild(again, study.layout, LocalHost()).refused,
    ) == (3, ())


@pytest.mark.parametrize("act", ["move", "delete"])
def test_an_archived_raw_file_is_distinguished_from_a_lost_one(
    study: Study, tmp_path: Path, act: str
) -> None:
    log = grow_log(study, 3)
    put_away(study, "raw", act, tmp_path)
    moved = [gzip.decompress(file.read_bytes()) for file in (tmp_path / "cold").rglob("*.gz")]
    assert moved == ([LONG] if act == "move" else [])
    assert not log.exists()
    assert study.look() == study.look(quick=True) == []
    assert rebuild(MemoryLedger(), study.layout, LocalHost()).refused == ()
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
    put_away(study, "raw", act, tmp_path)
    record = study.record(sample_cell(3).id)
    assert record.outcome is not None
    output = record.path, record.fingerprint, record.outcome.digest
    assert refusal(study.layout.root, *output) == ""
    (left,) = (file for file in log.parent.iterdir() if file.name.startswith("log.txt"))
    log.write_bytes(LONG)
    assert refusal(study.layout.root, *output) == f"{left.name} is not in its seal"
    log.unlink()
    left.write_bytes(gzip.compress(b"another"))
    assert "log.txt" in refusal(study.layout.root, *output)


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
        archive(study).compress(item, None)
    assert log.read_bytes() == LONG * 2


def test_a_packed_attempt_holds_all_that_was_there(study: Study) -> None:
    folder = succeeded_late(study, 3)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "one").write_text("1")
    os.link(folder / "deep" / "er" / "one", folder / "two")
    (folder / "away").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    before = {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    before.pop("away")
    (item,) = items(study, "attempts")
    archive(study).compress(item, None)
    assert not folder.parent.exists()
    (packed,) = archived_attempts(study.layout, sample_cell(3).fingerprint).values()
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
        archive(study).compress(item, None)
        first.mkdir()
    assert len(list(study.layout.archive.rglob("*.tar.gz"))) == 2


def test_a_full_disk_leaves_everything_where_it_was(study: Study, tmp_path: Path) -> None:
    folder = succeeded_late(study, 3)
    (folder / "noise").write_bytes(os.urandom(2**21))
    (item,) = items(study, "attempts")
    small = tmp_path / "small"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))  # it takes no larger file
    try:
        with pytest.raises(OSError, match="too large"):
            archive(study).compress(item, small)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [file for file in small.rglob("*") if file.is_file()] == []
    assert (folder / "noise").stat().st_size == 2**21
    assert archived_attempts(study.layout, sample_cell(3).fingerprint) == {}


def test_a_packing_that_was_killed_between_its_steps_is_done_again(study: Study) -> None:
    log = grow_log(study, 3)
    log.with_name("log.txt.gz").write_bytes(b"half")
    assert [found.kind for found in study.look()] == ["extra"]  # until then
    (item,) = items(study, "raw")
    archive(study).compress(item, None)
    assert (study.look(), log.exists()) == ([], False)


# In a process that is killed before it does what `moment` names to a file that ends like this.
KILLED = """\
import os, signal, sys
from pathlib import Path
from benchfleet.results.archive import Archive, Item
from benchfleet.results.layout import Layout
root, log, act, to, moment, end = sys.argv[1:]
def killed(event, arguments):
    if event == moment and str(arguments[0]).endswith(end):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(killed)
archive, item = Archive(Layout(Path(root)), now=0.0), Item(
    kind="raw", path=Path(log), name="log", bytes=Path(log).stat().st_size, age=0.0
)
with archive.lock():
    archive.delete(item) if act == "delete" else archive.compress(item, Path(to) if to else None)
"""


@pytest.mark.parametrize("ended_by", ["archive", "repair"])
@pytest.mark.parametrize(
    ("act", "moment", "end"),
    [
        ("compress", "os.rename", ".part"),
        ("compress", "os.remove", "/log.txt"),
        ("move", "os.rename", ".part"),
        ("move", "os.remove", "/log.txt"),
        ("delete", "os.remove", "/log.txt"),
    ],
)
def test_an_archive_that_was_killed_loses_nothing_and_is_ended_by_the_next_or_a_repair(
    study: Study, tmp_path: Path, act: str, moment: str, end: str, ended_by: str
) -> None:
    log = grow_log(study, 3)
    to = str(tmp_path / "cold") if act == "move" else ""
    words = [str(study.layout.root), str(log), act, to, moment, end]
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert log.read_bytes() == LONG
    assert {found.kind for found in study.look()} <= {"extra"}
    if ended_by == "repair":
        study.repair()
        assert log.read_bytes() == LONG
    else:
        with archive(study).lock():
            put_away(study, "raw", act, tmp_path)
        assert not log.exists()
        left = list(study.layout.archive.glob("*.part"))
        assert left == []
    assert study.look() == []


def test_what_an_archive_at_work_does_is_left_to_it(study: Study) -> None:
    log = grow_log(study, 3)
    log.with_name("log.txt.gz").write_bytes(gzip.compress(log.read_bytes()))
    with archive(study).lock():
        (output,) = study.repair()
    assert (output.act, "at work" in output.detail) == ("left", True)
    assert log.exists()


def test_only_one_packs_or_deletes_at_a_time(study: Study) -> None:
    with (
        archive(study).lock(),
        pytest.raises(ResultsError, match="another archive or gc"),
        archive(study).lock(),
    ):
        pass
