"""Limits that hold, with real slots here and behind a real sshd."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.engines.base import Done, Failed, Recorded, SlotLost, SlotQuiet, SlotReady
from benchfleet.engines.local import LocalEngine
from benchfleet.engines.openssh import connections
from benchfleet.engines.ssh import SshEngine
from benchfleet.machines.host_capacity import capacity_from_facts
from sshd import Sshd

from .conftest import gone
from .places import Place

HOG = """
import os, subprocess, sys, time
size = int(sys.argv[1])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[2], "w") as file:
            file.write(str(os.getpid()))
        held = bytearray(size)
        time.sleep(600)
    os._exit(0)
print("the hog starts", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=["here", "there"])
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Makes a place with slots that show life every second, on either side of an ssh."""
    places: list[Place] = []
    with ExitStack() as stack:

        def make(**options: Any) -> Place:
            if request.param == "here":
                place = Place(
                    lambda post: LocalEngine(post, heartbeat=0.5, **options), tmp_path, ""
                )
            else:
                sshd: Sshd = request.getfixturevalue("sshd")
                ssh = stack.enter_context(connections(sshd.folder / "known_hosts"))
                hosts = [replace(sshd.host("lab1"), gpus=None, cpu_slots=1)]
                place = Place(
                    lambda post: SshEngine(
                        post,
                        hosts=hosts,
                        ssh=ssh,
                        examine=capacity_from_facts,
                        heartbeat=0.5,
                        **options,
                    ),
                    tmp_path,
                    "lab1",
                )
            places.append(place)
            return place

        yield make
        for place in places:
            place.engine.shutdown()


def test_a_tree_over_its_limit_of_ram_is_ended_as_out_of_memory(
    make_place: Callable[..., Place],
) -> None:
    place = make_place()
    place.open()
    place.until(SlotReady)
    holds = place.folder / "holds"
    argv = [sys.executable, "-c", HOG, str(400 * 10**6), str(holds)]
    place.run("command", ram=300 * 10**6, name="hog", argv=argv)
    lost = place.until(SlotLost)
    assert (lost.kind, lost.expected) == ("oom", False)
    assert "over its limit of 300 MB; most of it python" in lost.reason
    assert "the hog starts" in place.log()
    assert gone(int(holds.read_text()))


def test_a_limit_of_ram_ends_with_its_cell(make_place: Callable[..., Place]) -> None:
    place = make_place()
    place.open()
    place.until(SlotReady)
    place.run("_hostile", ram=10**12, samples=2)
    place.until(Done)
    place.run("_hostile", ram=None, samples=4, seconds=0.6)
    place.until(Done)


@pytest.mark.parametrize("make_place", ["there"], indirect=True)
def test_a_stopped_slot_is_ended_by_its_supervisor(make_place: Callable[..., Place]) -> None:
    place = make_place()
    place.open()
    pid = place.until(SlotReady).hello["pid"]
    place.run("_hostile", act="hang")
    place.until(Recorded)
    os.kill(pid, signal.SIGSTOP)
    lost = place.until(SlotLost)
    assert (lost.kind, lost.expected) == ("stuck", False)
    assert "stopped by a signal (SIGSTOP) for" in lost.reason
    assert gone(pid)


def test_a_slot_that_computes_is_not_silent_while_a_thread_holds_python_s_lock(
    make_place: Callable[..., Place],
) -> None:
    place = make_place(silence=1.0)
    place.open()
    place.until(SlotReady)
    place.run("_hostile", act="grind", size=10**8)
    assert isinstance(place.until((SlotQuiet, Done)), Done)


def test_children_of_a_slot_have_its_share_of_threads(make_place: Callable[..., Place]) -> None:
    place = make_place()
    place.open(threads=1)
    place.until(SlotReady)
    program = (
        "import os, torch; print(os.environ['OMP_NUM_THREADS'], os.environ['MKL_NUM_THREADS'], "
        "torch.get_num_threads())"
    )
    place.run("command", name="threads", argv=[sys.executable, "-c", program])
    place.until((Done, Failed))
    assert "1 1 1" in place.log()
