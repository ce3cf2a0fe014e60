"""What a run from the command line makes of a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from benchfleet.cli.shared.foreground_run import handle_signals
from benchfleet.git import process as git_process
from benchfleet.runner.events import EventQueue, Interrupted


@pytest.fixture(autouse=True)
def _git_is_not_interrupted_for_other_tests() -> Iterator[None]:
    yield
    git_process.interrupt(False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_for_the_runner_once_it_serves_and_ends_what_waits_before(
    number: signal.Signals,
) -> None:
    inbox, serving = EventQueue(), threading.Event()
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), handle_signals(inbox, serving):
        signal.raise_signal(number)
    with handle_signals(inbox, serving):
        signal.raise_signal(number)
    assert [inbox.take(0), inbox.take(0)] == [Interrupted(signal=number.name)] * 2
    assert signal.getsignal(number) is before


LATE = """
import os, signal
import benchfleet.cli.main as cli

class Late:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGINT):
        kill(process, number)

late = Late()  # dies when Python has restored the usual handlers
cli.main = lambda: 130
cli.command()
"""


def test_a_signal_while_python_shuts_down_leaves_the_exit_code() -> None:
    assert subprocess.run([sys.executable, "-c", LATE], check=False).returncode == 130
