"""The processes of a command benchmark: how they end, and what is kept of what they say."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchfleet.benchmarks.process import run_process
from benchfleet.errors import CellFailure

STUBBORN = """\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1], sys.argv[1] + ".ready")
time.sleep(600)
"""

_SESSION = """\
import subprocess, sys, time
start = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:], " \\
    "start_new_session=True).pid, flush=True); time.sleep(600)"
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
first = subprocess.Popen(
    [sys.executable, "-c", start, *sleep], start_new_session=True, stdout=subprocess.PIPE, text=True
)
open(sys.argv[1], "w").write(f"{first.pid} {first.stdout.readline()}")
"""


def _run(argv: list[str], folder: Path, **given: Any) -> bytes:
    settings = {"timeout": None, "check_stop": lambda: None, "grace": 0.2, **given}
    return run_process(argv, folder=folder, environment=dict(os.environ), **settings)


def _gone(pids: list[int]) -> bool:
    """Whether none of them runs; a process just killed may take a moment to be so."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if not any(_runs(pid) for pid in pids):
            return True
        time.sleep(0.01)
    return False


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class AskedToStop(BaseException):
    pass


@pytest.mark.parametrize("by", ["stop", "time"])
def test_a_command_and_its_children_end_even_where_they_do_not_listen(
    tmp_path: Path, by: str
) -> None:
    marker = tmp_path / "pids"
    ready = tmp_path / "pids.ready"

    def stop() -> None:
        if by == "stop" and ready.exists():
            raise AskedToStop

    def clock() -> float:
        return 100.0 if by == "time" and ready.exists() else 0.0

    argv = [sys.executable, "-c", STUBBORN, str(marker)]
    with pytest.raises((AskedToStop, CellFailure)) as caught:
        _run(argv, tmp_path, check_stop=stop, clock=clock, timeout=50.0)
    if by == "time":
        assert isinstance(caught.value, CellFailure)
        assert caught.value.kind == "timeout"
    else:
        assert isinstance(caught.value, AskedToStop)
    assert _gone([int(pid) for pid in ready.read_text().split()])


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    left = "sleep 600 & echo $! > pid; echo done"
    assert _run(["sh", "-c", left], tmp_path) == b"done\n"
    assert _gone([int((tmp_path / "pid").read_text())])


@pytest.mark.parametrize("ending", ["well", "badly", "by time"])
def test_what_a_command_leaves_in_a_session_of_its_own_ends_with_it(
    tmp_path: Path, ending: str
) -> None:
    """Else it takes memory and cores of the cells that come next."""
    last = {"well": "", "badly": "sys.exit(1)", "by time": "time.sleep(600)"}[ending]
    child = f"{_SESSION}\n{last}"
    argv, marker = [sys.executable, "-c", child], tmp_path / "pids"
    fails = contextlib.nullcontext() if ending == "well" else pytest.raises(CellFailure)
    with fails:
        _run([*argv, str(marker)], tmp_path, timeout=5.0 if ending == "by time" else None)
    assert _gone([int(pid) for pid in marker.read_text().split()])


def test_a_command_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    closed = "exec >&- ; sleep 0.3; touch here"
    assert _run(["sh", "-c", closed], tmp_path) == b""
    assert (tmp_path / "here").exists()


def test_only_the_end_of_a_long_output_is_kept_and_all_of_it_is_logged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "import sys; sys.stdout.write('x' * 3_000_000 + 'END')"
    kept = _run([sys.executable, "-c", text], tmp_path)
    assert len(kept) == 3_000_003
    assert kept.endswith(b"xEND")
    assert len(capfd.readouterr().out) == 3_000_003


def test_a_command_that_cannot_start_is_the_users_to_fix(tmp_path: Path) -> None:
    with pytest.raises(CellFailure, match=r"cannot be started: No such file") as caught:
        _run(["no-such-command-here"], tmp_path)
    assert caught.value.kind == "user_error"


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed"),
        ("import os; os.kill(os.getpid(), 15)", "killed"),
        ("raise SystemExit(129)", "killed"),  # as a shell reports SIGHUP
        ("raise KeyboardInterrupt", "killed"),
        ("raise SystemExit(75)", "try_again"),
        ("import socket; socket.create_connection(('127.0.0.1', 1))", "connection"),
        ("raise RuntimeError('HTTP Error 503: Service Unavailable')", "connection"),
        ("raise OSError(28, 'No space left on device')", "disk_full"),
        ("import sys; print('No space left on device', file=sys.stderr); 1 / 0", "error"),
        ("raise ValueError('HTTP Error 404: Not Found')", "error"),
        ("import sys; print('Connection refused', file=sys.stderr); 1 / 0", "error"),
    ],
)
def test_the_end_of_a_script_has_a_kind(tmp_path: Path, script: str, kind: str) -> None:
    with pytest.raises(CellFailure) as failure:
        _run([sys.executable, "-c", script], tmp_path)
    assert failure.value.kind == kind
    assert failure.value.is_retryable == (kind != "error")
