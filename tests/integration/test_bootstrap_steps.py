"""The commands of a bootstrap, run by a real shell and Python in a folder of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
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


def test_a_folder_in_the_place_of_an_environment_is_not_touched(host: Host) -> None:
    made(host, "a")
    (envs(host) / environment_name() / "mine").mkdir(parents=True)
    with pytest.raises(subprocess.CalledProcessError):
        ran(plan(host, "a").publish())
    assert (envs(host) / environment_name() / "mine").is_dir()
