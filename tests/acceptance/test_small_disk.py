"""Disks that are full while a campaign runs, and when it says how it went."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchfleet.benchmarks.reported_scores import read_file
from benchfleet.errors import CellFailure
from sshd import Sshd

from .conftest import COMMAND, MOCK, User
from .hurried import start_with


def test_a_full_disk_below_what_is_printed_is_reported_without_its_number(user: User) -> None:
    user.write(MOCK)
    command = f"{' '.join(COMMAND)} status study.yaml > /dev/full"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=user.folder,
        env=user.environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (2, "benchfleet: No space left on device\n")


@pytest.fixture
def small_disk(user: User) -> Iterator[Callable[[str], None]]:
    """A disk of its own at ``small``; called with a size, it gets another one."""
    small = user.folder / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        reason = "needs root and the right to mount, for a disk that can be filled"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    yield lambda size: remounted(small, size)
    subprocess.run(["umount", "--lazy", str(small)], check=True)


def test_a_report_that_a_full_disk_cut_off_is_no_bad_result(
    small_disk: Callable[[str], None], user: User
) -> None:
    report = user.folder / "small" / "result.json"
    report.write_text('{"accuracy": 0.')
    with pytest.raises(CellFailure, match="cannot be read as JSON") as failure:
        read_file(report)
    assert failure.value.kind == "bad_result"
    with suppress(OSError):
        (report.parent / "fill").write_bytes(bytes(10**6))
    with pytest.raises(CellFailure, match="no space left on device") as failure:
        read_file(report)
    assert (failure.value.stage, failure.value.kind) == ("benchmark", "disk_full")


def remounted(small: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(small)], check=True)


LARGE = (
    MOCK.replace("[mock_benchmark]", '[{recall: {subsets: ["4096"], samples: 10}}]')
    + "defaults: {repeats: 6, limits: {tries: 1, disk: 1kB}}\n"
)

SHORT_PAUSES = """\
from benchfleet.runner import disk_guard
disk_guard.FIRST_PAUSE_S = 2.0
"""


@pytest.mark.parametrize("ledger", [("--ledger", "sqlite:ledger.db"), ()], ids=["away", "beside"])
def test_a_full_disk_pauses_a_run_which_goes_on_when_there_is_room(
    user: User, small_disk: Callable[[str], None], ledger: tuple[str, ...]
) -> None:
    if not ledger:
        small_disk("900k")
    user.write(LARGE)
    words = ("study.yaml", "--results", "small", *ledger)
    process = start_with(user, SHORT_PAUSES, "run", *words)
    output: list[str] = []
    assert process.stdout is not None
    while "the disk of the" not in "".join(output[-1:]):  # results, or ledger: whichever met it
        output.append(process.stdout.readline())
        assert output[-1], "".join(output) + "".join(process.communicate())
    time.sleep(2)  # so that more than one cell meets the full disk
    assert process.poll() is None
    small_disk("20m")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, "".join(output) + out + err
    assert "cells begin again" in out
    assert user.json("status", *words)["success"] == 12


def test_a_run_that_waits_for_room_ends_with_ctrl_c_and_loses_nothing(
    user: User, small_disk: Callable[[str], None]
) -> None:
    user.write(MOCK + "defaults: {limits: {disk: 1GB}}\n")
    words = ("study.yaml", "--results", "small")
    process = user.start("run", *words)
    assert process.stdout is not None
    while "limits.disk" not in (line := process.stdout.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert user.json("status", *words)["pending"] == 2


WRITES_MUCH = """\
campaign: study
matrix:
  models: [{name: m, adapter: mock}]
  configs: {dense: null, later: {attention: {sink: 4}}}
  benchmarks: [{command: {name: own, argv: [python, much.py, "{scratch}"]}}]
"""
MUCH = """\
import sys
with open(f"{sys.argv[1]}/much.txt", "w") as out:
    out.writelines(f"{number}\\n" for number in range(20_000))
print('{"score": 1}')
"""


def test_a_full_disk_is_named_and_gc_makes_room_on_it(
    user: User, small_disk: Callable[[str], None]
) -> None:
    small_disk("2m")
    user.write(WRITES_MUCH)
    (user.folder / "much.py").write_text(MUCH)
    words = ("study.yaml", "--results", "small")
    user.run("run", *words, "--only", "configs=dense")
    with suppress(OSError), open(user.folder / "small" / "fill", "wb", buffering=0) as fill:
        while fill.write(bytes(2**12)):
            pass
    assert user.json("status", *words)["success"] == 1
    assert "nothing wrong" in user.run("verify", *words, code=1).stdout
    refused = user.run("cancel", *words, "--cell", "*", "--yes", code=3)
    assert "its disk is full; make room on the disk" in refused.stderr
    user.run("status", "--ledger", "sqlite:small/study/ledger.db")
    deleted = user.run("gc", *words, "--older-than", "0s", "--what", "raw", "--yes")
    assert "deleted 1" in deleted.stdout
    assert not list(user.folder.rglob("much.txt"))
    assert "nothing wrong" in user.run("verify", *words, code=1).stdout
    user.run("cancel", *words, "--cell", "*", "--yes")


def test_a_bootstrap_that_fills_its_hosts_disk_frees_it_again(
    small_disk: Callable[[str], None], user: User, sshd: Sshd
) -> None:
    small_disk("5m")  # too little for an environment
    disk = user.folder / "small"
    name = user.inventory(sshd.host("lab1", folder=str(disk / "its"), python=""))
    done = user.run("hosts", "bootstrap", name, "--yes", code=1)
    assert "lab1  failed: could not make the environment: " in done.stdout
    assert list((disk / "its" / "envs").glob("0*")) == []
    assert shutil.disk_usage(disk).used < 10**5
