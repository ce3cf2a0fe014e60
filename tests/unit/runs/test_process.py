"""A record's process is the one that wrote it, or none."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from benchfleet.runs.process import Process


def test_this_process_lives_and_hears_its_signal() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        assert Process.own().lives() is True
        assert Process.own().signal(signal.SIGUSR1)
        assert heard == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_process_that_took_a_dead_ones_number_is_never_signalled() -> None:
    other = replace(Process.own(), name=f"{Process.own().pid}@1")
    assert other.lives() is False
    assert not other.signal(signal.SIGKILL)  # or this test would not go on


def test_what_is_dead_and_not_yet_buried_lives_no_more() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with child:
        own = Process.own()
        named = replace(own, pid=child.pid, name=_name_of(child.pid))
        assert named.lives() is True
        child.kill()
        while named.lives():
            pass
        assert child.returncode is None
    assert named.lives() is False
    assert not named.signal(signal.SIGTERM)


def _name_of(pid: int) -> str:
    from benchfleet.engines.processes import owner

    return owner(pid)


def test_of_before_the_last_start_of_this_machine_nothing_lives() -> None:
    assert replace(Process.own(), space="an earlier boot pid:[1]").lives() is False


def test_nobody_knows_from_here_what_lives_on_another_machine_or_in_a_container() -> None:
    own = Process.own()
    boot = own.space.partition(" ")[0]
    elsewhere = replace(own, space="their boot pid:[1]", host="theirs")
    contained = replace(own, space=f"{boot} pid:[1]")
    for process in (elsewhere, contained):
        assert process.lives() is None
        assert not process.signal(signal.SIGKILL)


@pytest.mark.parametrize("found", [{}, {"pid": "x", "name": "", "space": "", "host": ""}])
def test_what_is_no_process_is_refused(found: dict[str, str]) -> None:
    with pytest.raises((LookupError, ValueError)):
        Process.read(found)
