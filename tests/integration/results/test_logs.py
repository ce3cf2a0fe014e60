"""Logs wherever they lie, and hostile ones."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.logs import Tail, lines, log_of
from benchfleet.results.write import AttemptFolder
from benchfleet.testing import sample_cell
from study import Study

from .archives import FAILURE, LONG, failed, grow_log, put_away, succeeded_late


def text(study: Study, number: int, name: str, *, last: bool) -> str | None:
    record = study.record(sample_cell(number).id)
    log = log_of(study.layout, record, name, last=last)
    return None if log is None else "\n".join(lines(log.pieces()))


@pytest.mark.parametrize("act", ["leave", "pack", "move"])
def test_the_log_of_a_result_is_found_where_it_is(study: Study, tmp_path: Path, act: str) -> None:
    grow_log(study, 3)
    put_away(study, "raw", act, tmp_path)
    assert text(study, 3, "1-1", last=True) == LONG.decode().rstrip("\n")
    assert text(study, 3, "1-1", last=False) is None


@pytest.mark.parametrize("act", ["leave", "pack", "move", "delete"])
def test_the_log_of_an_earlier_attempt_is_found_where_it_is(
    study: Study, tmp_path: Path, act: str
) -> None:
    succeeded_late(study, 3)
    put_away(study, "attempts", act, tmp_path)
    output = text(study, 3, "1-1", last=False)
    assert output == (None if act in ("move", "delete") else LONG.decode().rstrip("\n"))


@pytest.mark.parametrize("act", ["leave", "pack"])
def test_of_several_attempts_of_one_name_the_last_one_s_log_is_meant(
    study: Study, tmp_path: Path, act: str
) -> None:
    """They are called so in a ledger that was created again after the first."""
    failed(study, 3, 1, state="failed")
    for count in range(2):
        study.ledger = MemoryLedger()
        claim = study.claim(sample_cell(3))
        log = AttemptFolder(study.layout.attempt(claim.lease))
        log.log.write_text(f"{count} said\n")
        log.fail(FAILURE)
    outcome = Outcome(state="failed", failure=FAILURE)
    study.ledger.finish(claim.lease, outcome)
    put_away(study, "attempts", act, tmp_path)
    assert text(study, 3, "1-1", last=True) == "1 said"
    study.ledger = MemoryLedger()
    grow_log(study, 3)
    assert text(study, 3, "1-1", last=True) == LONG.decode().rstrip("\n")


def test_a_link_in_place_of_a_log_is_not_followed(study: Study) -> None:
    log = study.folder(study.one) / "log.txt"
    log.unlink()
    log.symlink_to("/etc/passwd")
    assert log_of(study.layout, study.record(study.one), "1-1", last=True) is None


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"one\ntw", b"o"], ["one", "two"]),
        ([b"\r 10%\r 50%\r100%\ndone"], ["100%", "done"]),
        (["ü".encode()[:1], "ü".encode()[1:]], ["ü"]),
        ([b"\xff\x00\n"], ["\ufffd\x00"]),
        ([b"a\tb"], ["a       b"]),
        ([b"\n\n"], ["", ""]),
        ([], []),
    ],
)
def test_lines_are_as_a_terminal_would_have_left_them(
    pieces: list[bytes], shown: list[str]
) -> None:
    assert list(lines(pieces)) == shown


def test_a_line_of_a_hundred_megabytes_does_not_fill_the_memory() -> None:
    tracemalloc.start()
    parts = sum(1 for _ in lines(b"x" * 2**16 for _ in range(1600)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (parts > 100, peak < 10 * 2**20) == (True, True)


def test_the_lines_of_a_log_are_printed_once_also_when_its_folder_moves(study: Study) -> None:
    path = study.finish(sample_cell(3), rename=False)
    record = study.record(path)
    (name,) = (folder.name for folder in study.layout.attempts_of(record.fingerprint).iterdir())
    tail, file = Tail(), study.layout.attempts_of(record.fingerprint) / name / "log.txt"

    def seen(*, last: bool = False) -> list[str]:
        log = log_of(study.layout, record, name, last=True)
        assert log is not None
        return tail.new_lines(log, last=last)

    for written, output in ((b"one\ntw", ["one"]), (b"o\n", ["two"]), (b"", []), (b"thr", [])):
        with open(file, "ab") as log:
            log.write(written)
        assert seen() == output
    public = study.folder(path)
    public.parent.mkdir(parents=True, exist_ok=True)
    file.parent.rename(public)
    with open(public / "log.txt", "ab") as log:
        log.write(b"ee\nfour")
    assert seen() == ["three"]
    assert seen(last=True) == ["four"]
