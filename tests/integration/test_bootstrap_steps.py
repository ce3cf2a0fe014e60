"""The commands of a bootstrap, run by a real shell and Python in a folder of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import PROT_READ, mmap
from pathlib import Path

import pytest

from benchfleet.domain.host import Host
from benchfleet.machines.bootstrap_plan import EnvironmentSpec, Plan, Step
from benchfleet.machines.wheel import Wheel, environment_name

WANTED = EnvironmentSpec(wheel=Wheel(name="benchfleet-1-py3-none-any.whl", data=b"wheel"))
WITHOUT_LOCKS = """\
import errno, fcntl
def flock(file, how):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = flock
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(name="lab1", folder=str(tmp_path / "its folder"))


def envs(host: Host) -> Path:
    return Path(host.folder) / "envs"


def plan(host: Host, token: str) -> Plan:
    return Plan(host, WANTED, sys.executable, token)


def ran(step: Step, **more: str) -> str:
    """What the step's command says."""
    done = subprocess.run(
        step.words, input=b"", stdout=subprocess.PIPE, env={**os.environ, **more}, check=True
    )
    return done.stdout.decode()


def made(host: Host, token: str) -> Path:
    folder = envs(host) / f"{environment_name()}.made-{token}"
    folder.mkdir(parents=True)
    return folder


def test_the_lock_says_whether_it_keeps_others_out(host: Host, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_LOCKS)
    assert ran(plan(host, "a").lock()) == "held\n"
    assert ran(plan(host, "a").lock(), PYTHONPATH=str(tmp_path)) == "unlocked\n"


def test_the_lock_says_why_the_folder_cannot_be_made() -> None:
    step = plan(Host(name="lab1", folder="/proc/x"), "a").lock()
    done = subprocess.run(step.words, input=b"", capture_output=True)
    assert done.stdout == b"refused No such file or directory\n"
    assert b"Traceback" not in done.stderr


def test_an_environment_takes_the_place_of_another_and_a_later_clean_removes_that(
    host: Host,
) -> None:
    first, second = made(host, "a"), made(host, "b")
    ran(plan(host, "a").publish())
    place = envs(host) / environment_name()
    assert place.resolve() == first
    ran(plan(host, "b").publish())
    assert place.resolve() == second
    ran(next(iter(plan(host, "c").prepare())))
    assert sorted(envs(host).iterdir()) == [place, second]


@contextmanager
def working(word: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has this word on its command line."""
    says = [sys.executable, "-c", "print('here', flush=True); input()", word]
    pipe = subprocess.PIPE
    with subprocess.Popen(says, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


def test_the_end_of_the_lock_ends_what_works_there_and_removes_what_was_not_published(
    host: Host,
) -> None:
    draft, other = made(host, "a"), made(host, "b")
    (envs(host) / f"{draft.name}.link").symlink_to(draft.name)
    with working(f"{draft}/bin/python") as killed, working(f"{other}/bin/python") as kept:
        ran(plan(host, "a").lock())
        assert killed.wait(10) == -signal.SIGKILL
        assert kept.poll() is None
    assert [path.name for path in envs(host).glob("0*")] == [other.name]


def test_the_end_of_the_lock_keeps_what_was_published_and_runs(host: Host) -> None:
    draft = made(host, "a")
    ran(plan(host, "a").publish())
    with working(f"{draft}/bin/python") as slot:
        ran(plan(host, "a").lock())
        assert slot.poll() is None
    assert (envs(host) / environment_name()).resolve() == draft


def test_a_clean_keeps_what_something_runs_in(host: Host) -> None:
    draft = made(host, "a")
    clean = next(iter(plan(host, "c").prepare()))
    with working(f"{draft}/bin/python"):
        ran(clean)
        assert draft.is_dir()
    library = draft / "library.so"
    library.write_bytes(b"x" * 4096)
    with open(library, "rb") as file, mmap(file.fileno(), 0, prot=PROT_READ):
        ran(clean)
        assert draft.is_dir()
    ran(clean)
    assert not draft.exists()


def test_a_folder_in_the_place_of_an_environment_is_not_touched(host: Host) -> None:
    made(host, "a")
    (envs(host) / environment_name() / "mine").mkdir(parents=True)
    with pytest.raises(subprocess.CalledProcessError):
        ran(plan(host, "a").publish())
    assert (envs(host) / environment_name() / "mine").is_dir()
