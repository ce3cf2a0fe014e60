"""Whether this machine is fit to run cells: what is looked at, what was found, and the way out."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import benchfleet
from benchfleet.domain.humanize import sized
from benchfleet.environment import own_cache
from benchfleet.errors import DeviceError
from benchfleet.machines.devices import cores
from benchfleet.machines.free_memory import free_memory
from benchfleet.machines.nvml import open_nvml

Level = Literal["ok", "warning", "problem"]
_LEAST_PYTHON = (3, 10)
_PACKAGES = ("rich", "psutil", "nvidia-ml-py", "PyYAML")
_CGROUP = Path("/sys/fs/cgroup")
_SHARED = Path("/dev/shm")  # noqa: S108 - looked at, not written
_FILES, _PROCESSES = 1024, 512  # fewer are soon used up
_RAM = 2 * 10**9  # bytes
_SHARED_LEAST = 512 * 2**20  # bytes; torch hands batches over in it
_TEMPORARY = 10**9  # bytes
_BUILT = 1_700_000_000.0  # seconds since 1970; a clock before this is wrong
_PATIENCE = 10.0  # seconds for a program to tell its version
_PROGRAMS = {
    "git": "provenance names no commit without it; install git",
    "ssh": "other machines are not reached without it; install the OpenSSH client",
    "rsync": "models go to other machines slower without it; install rsync",
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    what: str
    level: Level
    found: str
    fix: str = ""  # what to do; "" where nothing need be done


def machine_checks(*, cgroup: Path = _CGROUP, shared: Path = _SHARED) -> Iterator[Check]:
    """What every run needs of this machine."""
    yield _python()
    yield _packages()
    yield _cores(cgroup)
    yield _memory(cgroup)
    yield from _gpus()
    yield _shared_memory(shared)
    yield _open_files()
    yield _processes(cgroup)
    yield _clock()
    yield folder_check("cache", own_cache(os.environ), least=0, fix="set XDG_CACHE_HOME")
    temporary = Path(tempfile.gettempdir())
    yield folder_check("temporary files", temporary, least=_TEMPORARY, fix="set TMPDIR elsewhere")
    yield from map(_program, _PROGRAMS)


def judged(
    what: str, found: str, fix: str, *, problem: bool = False, warning: bool = False
) -> Check:
    """A check with the way out where it is not good."""
    level: Level = "problem" if problem else "warning" if warning else "ok"
    return Check(what=what, level=level, found=found, fix=fix if level != "ok" else "")


def folder_check(what: str, folder: Path, *, least: int, fix: str) -> Check:
    """Whether something can be written in a folder, or where it is to be made; nothing is left
    there. A file server whose clock is off is told too."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        before = time.time()
        with tempfile.NamedTemporaryFile(dir=place, prefix=".benchfleet-") as file:
            ahead = os.fstat(file.fileno()).st_mtime - before
        free = shutil.disk_usage(place).free
    except OSError as error:
        return judged(what, f"{folder} cannot be written: {error.strerror}", fix, problem=True)
    if free < least:
        found = f"{folder}: only {sized(free)} are free"
        return judged(what, found, f"free space there, or {fix}", warning=True)
    if abs(ahead) > 60:
        found = f"{folder}: its disk's clock is {ahead:+.0f} s off this machine's"
        return judged(what, found, "set both clocks by NTP", warning=True)
    return judged(what, f"{folder}, {sized(free)} free", "")


def _python() -> Check:
    found = f"{platform.python_version()} at {sys.executable}, benchfleet {benchfleet.__version__}"
    least = ".".join(map(str, _LEAST_PYTHON))
    old = sys.version_info[:2] < _LEAST_PYTHON
    return judged("Python", found, f"use Python {least} or newer", problem=old)


def _packages() -> Check:
    have, lacking = [], []
    for name in _PACKAGES:
        try:
            have.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lacking.append(name)
    found = f"{', '.join(lacking)} not installed" if lacking else ", ".join(have)
    return judged("packages", found, "python -m pip install benchfleet", problem=bool(lacking))


def _cores(cgroup: Path) -> Check:
    count, load = cores(), os.getloadavg()[0]
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        allowed = int(quota) / int(period)
    except (OSError, ValueError):  # "max", or no such group
        allowed = float(count)
    if allowed < count:
        found = f"{count} are seen, and the control group allows {allowed:g}"
        fix = f"--cpu-slots {max(1, int(allowed))}, or give the container more"
        return judged("cores", found, fix, warning=True)
    found = f"{count}, load {load:.1f}"
    fix = "others compute here: times will not be what they could be"
    return judged("cores", found, fix, warning=load > 1.5 * count)


def _memory(cgroup: Path) -> Check:
    ram = free_memory(gpus=False, cgroup=cgroup)["cpu"]
    found = f"{sized(ram.free)} free of {sized(ram.total)}"
    fix = "end what holds it, or run small models in few slots"
    return judged("RAM", found, fix, warning=ram.free < _RAM)


def _gpus() -> Iterator[Check]:
    try:
        with open_nvml() as nvml:
            driver, found = nvml.driver(), nvml.gpus()
    except DeviceError as error:
        yield judged("GPUs", f"none: {error}", "")
        return
    for gpu in found:
        what = f"gpu:{gpu.index}"
        about = f"{gpu.name}, {sized(gpu.free)} free of {sized(gpu.memory)}, driver {driver}"
        if gpu.fault:
            yield judged(what, gpu.fault, "leave it out with --gpus, and restart it", warning=True)
        elif gpu.processes:
            on_it = ", ".join(map(str, gpu.processes))
            fix = "wait, leave it out with --gpus, or name it there with --share-gpus"
            yield judged(what, f"{about}; in use by {on_it}", fix, warning=True)
        else:
            yield judged(what, about, "")


def _shared_memory(place: Path) -> Check:
    if not place.is_dir():
        return judged("shared memory", f"there is no {place} on this system", "")
    disk = shutil.disk_usage(place)
    found = f"{place}: {sized(disk.free)} free of {sized(disk.total)}"
    fix = "give it more: docker run --shm-size 2g, or mount -o remount,size=2g /dev/shm"
    return judged("shared memory", found, fix, warning=disk.free < _SHARED_LEAST)


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = float("inf") if soft == resource.RLIM_INFINITY else soft
    more = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    found = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft} at once"
    return judged("open files", found, f"ulimit -n {more}", warning=allowed < _FILES)


def _processes(cgroup: Path) -> Check:
    allowed: list[int] = []
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    allowed += [soft] if soft != resource.RLIM_INFINITY and os.geteuid() != 0 else []
    with contextlib.suppress(OSError, ValueError):  # "max", or no such group
        allowed.append(int((cgroup / "pids.max").read_text()))
    least = min(allowed, default=None)
    found = "unlimited" if least is None else f"{least} with their threads"
    fix = "ulimit -u 4096, or docker run --pids-limit -1"
    return judged("processes", found, fix, warning=least is not None and least < _PROCESSES)


def _clock() -> Check:
    now = time.time()
    found = time.strftime("%F %T %Z", time.localtime(now))
    return judged("clock", found, "set it: timedatectl set-ntp true", warning=now < _BUILT)


def _program(name: str, ask: Callable[[str], str] | None = None) -> Check:
    place = shutil.which(name)
    if place is None:
        return judged(name, "not installed", _PROGRAMS[name], warning=True)
    return judged(name, (ask or _version)(name) or place, "")


def _version(name: str) -> str:
    """The first version number that a program tells of itself; ``""`` for none."""
    option = "-V" if name == "ssh" else "--version"
    try:
        done = subprocess.run(
            [name, option],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"[0-9]+\.[0-9][\w.]*", done.stdout + done.stderr)
    return match[0] if match else ""
