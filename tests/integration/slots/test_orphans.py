"""What a runner left behind is ended once it is gone, and only then: with real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchfleet.engines.frames import encode
from benchfleet.engines.processes import end_orphans, owner
from benchfleet.slot import launch
from benchfleet.testing.engine_fixture import slot_id

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="marks are seen in /proc alone")
SLEEP = ["sleep", "300"]


@pytest.fixture
def owned() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts a process with the mark of an owner, and ends it after the test."""
    started = []

    def start(name: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(SLEEP, env={**os.environ, "BENCHFLEET_OWNER": name})
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(60)


def test_what_a_dead_owner_left_is_ended_and_what_a_living_one_has_is_not(
    owned: Callable[[str], subprocess.Popen[bytes]],
) -> None:
    with subprocess.Popen(SLEEP) as gone:
        dead = owner(gone.pid)
        gone.kill()
    orphan, child = owned(dead), owned(owner(os.getpid()))
    end_orphans()
    assert orphan.wait(60) == -signal.SIGKILL
    assert child.poll() is None


def test_an_owner_whose_number_another_process_has_now_is_dead(
    owned: Callable[[str], subprocess.Popen[bytes]],
) -> None:
    orphan = owned(f"{os.getpid()}@1")
    end_orphans()
    assert orphan.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("name", ["", "nobody"])
def test_a_mark_that_names_nobody_is_left_alone(
    name: str, owned: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    process = owned(name)
    end_orphans()
    assert process.poll() is None


def test_a_supervisor_says_that_it_ended_its_slot_for_lack_of_a_runner(tmp_path: Path) -> None:
    """So that nobody takes the signal that ended the slot for the cell's own end."""
    launcher = Path(launch.__file__)
    opening = encode(
        "open", slot=slot_id("alone"), package=str(launcher.parents[1]), marker_key="key",
        gpus="", threads=1, heartbeat=1.0, silence=60.0,
    )  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", str(launcher)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(opening)
    process.stdin.flush()
    assert process.stdout.read(1)  # it said hello
    _, printed = process.communicate(timeout=60)
    assert re.search(
        rb"\0key ended \d+ host_lost the slot has no contact with its runner\0", printed
    )
