"""The signal file is taken once, whole, and only where it is a plain file."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchfleet.runner.commands.signal_file import SignalFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "slots.txt"


def signal_file(file: Path, name: str = "us") -> SignalFile:
    return SignalFile(file, file.parent / ".slots" / name)


def test_lines_are_read_once_when_the_file_stops_changing(file: Path) -> None:
    signals = signal_file(file)
    assert signals.take() == []
    file.write_text("drain gp")
    assert signals.take() == []
    with file.open("a") as more:
        more.write("u:1\n")
    assert signals.take() == []
    assert signals.take() == ["drain gpu:1"]
    assert signals.take() == []
    assert list(file.parent.rglob("*")) == [file.parent / ".slots"]


def test_of_two_runners_one_takes_it(file: Path) -> None:
    us, them = signal_file(file), signal_file(file, "them")
    file.write_text("drain gpu:1")
    assert us.take() == them.take() == []
    assert us.take() == ["drain gpu:1"]
    assert them.take() == []


def test_bytes_that_are_no_text_are_lines_all_the_same(file: Path) -> None:
    signals = signal_file(file)
    file.write_bytes(b"\xff\xfe\n" + b"x" * 10**6)
    signals.take()
    lines = signals.take()
    assert lines[0] == "\ufffd\ufffd"
    assert len(lines[1]) < 2**16


def test_what_is_no_plain_file_is_let_be(file: Path) -> None:
    signals = signal_file(file)
    secret = file.with_name("secret")
    secret.write_text("add gpu:1")
    makes: tuple[Callable[[], None], ...] = (
        partial(file.symlink_to, secret),
        file.mkdir,
        partial(os.mkfifo, file),
    )
    for make in makes:
        make()
        assert signals.take() == []
        assert signals.take() == []
        file.rmdir() if file.is_dir() else file.unlink()
    assert secret.exists()
