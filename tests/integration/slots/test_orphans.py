"""What a runner left behind is ended once it is gone, and only then: with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from benchfleet.engines.processes import end_orphans, owner

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
