"""Whether this machine is fit to run cells: the checks, their findings and fixes."""

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
_MIN_PYTHON = (3, 10)
_PACKAGES = ("rich", "psutil", "nvidia-ml-py", "PyYAML")
_CGROUP = Path("/sys/fs/cgroup")
_SHARED = Path("/dev/shm")  # noqa: S108 - looked at, not written
_MIN_OPEN_FILES, _MIN_PROCESSES = 1024, 512  # fewer are soon used up
_MIN_RAM_BYTES = 2 * 10**9  # bytes
_MIN_SHARED_BYTES = 512 * 2**20  # bytes; torch hands batches over in it
_MIN_TEMPORARY_BYTES = 10**9  # bytes
_EARLIEST_CLOCK_S = 1_700_000_000.0  # seconds since 1970; a clock before this is wrong
_VERSION_TIMEOUT_S = 10.0  # seconds for a program to tell its version
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
    finding: str
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
    yield folder_check(
        "temporary files", temporary, least=_MIN_TEMPORARY_BYTES, fix="set TMPDIR elsewhere"
    )
    yield from map(_program, _PROGRAMS)


def judged(
    what: str, finding: str, fix: str, *, problem: bool = False, warning: bool = False
) -> Check:
    """A check, with its fix if it is not good."""
    level: Level = "problem" if problem else "warning" if warning else "ok"
    return Check(what=what, level=level, finding=finding, fix=fix if level != "ok" else "")


def folder_check(what: str, folder: Path, *, least: int, fix: str) -> Check:
    """Whether something can be written in a folder, or where it is to be made; nothing is left
    there. A file server whose clock is off is reported too."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        before = time.time()
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".benchfleet-") as file:
            ahead = os.fstat(file.fileno()).st_mtime - before
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return judged(what, f"{folder} cannot be written: {error.strerror}", fix, problem=True)
    if free < least:
        finding = f"{folder}: only {sized(free)} are free"
        return judged(what, finding, f"free space there, or {fix}", warning=True)
    if abs(ahead) > 60:
        finding = f"{folder}: its disk's clock is {ahead:+.0f} s off this machine's"
        return judged(what, finding, "set both clocks by NTP", warning=True)
    return judged(what, f"{folder}, {sized(free)} free", "")


def _python() -> Check:
    finding = (
        f"{platform.python_version()} at {sys.executable}, benchfleet {benchfleet.__version__}"
    )
    least = ".".join(map(str, _MIN_PYTHON))
    old = sys.version_info[:2] < _MIN_PYTHON
    return judged("Python", finding, f"use Python {least} or newer", problem=old)


def _packages() -> Check:
    installed, missing = [], []
    for name in _PACKAGES:
        try:
            installed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    finding = f"{', '.join(missing)} not installed" if missing else ", ".join(installed)
    return judged("packages", finding, "python -m pip install benchfleet", problem=bool(missing))


def _cores(cgroup: Path) -> Check:
    count, load = cores(), os.getloadavg()[0]
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        allowed = int(quota) / int(period)
    except (OSError, ValueError):  # "max", or no such group
        allowed = float(count)
    if allowed < count:
        finding = f"{count} are seen, and the control group allows {allowed:g}"
        fix = f"--cpu-slots {max(1, int(allowed))}, or give the container more"
        return judged("cores", finding, fix, warning=True)
    finding = f"{count}, load {load:.1f}"
    fix = "others compute here: times will not be what they could be"
    return judged("cores", finding, fix, warning=load > 1.5 * count)


def _memory(cgroup: Path) -> Check:
    ram = free_memory(gpus=False, cgroup=cgroup)["cpu"]
    finding = f"{sized(ram.free)} free of {sized(ram.total)}"
    fix = "end what holds it, or run small models in few slots"
    return judged("RAM", finding, fix, warning=ram.free < _MIN_RAM_BYTES)


def _gpus() -> Iterator[Check]:
    try:
        with open_nvml() as nvml:
            driver, gpus = nvml.driver(), nvml.gpus()
    except DeviceError as error:
        yield judged("GPUs", f"none: {error}", "")
        return
    for gpu in gpus:
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


def _shared_memory(folder: Path) -> Check:
    if not folder.is_dir():
        return judged("shared memory", f"{folder} is missing on this system", "")
    disk = shutil.disk_usage(folder)
    finding = f"{folder}: {sized(disk.free)} free of {sized(disk.total)}"
    fix = "give it more: docker run --shm-size 2g, or mount -o remount,size=2g /dev/shm"
    return judged("shared memory", finding, fix, warning=disk.free < _MIN_SHARED_BYTES)


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = float("inf") if soft == resource.RLIM_INFINITY else soft
    more = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    finding = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft} at once"
    return judged("open files", finding, f"ulimit -n {more}", warning=allowed < _MIN_OPEN_FILES)


def _processes(cgroup: Path) -> Check:
    allowed: list[int] = []
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    allowed += [soft] if soft != resource.RLIM_INFINITY and os.geteuid() != 0 else []
    with contextlib.suppress(OSError, ValueError):  # "max", or no such group
        allowed.append(int((cgroup / "pids.max").read_text()))
    least = min(allowed, default=None)
    finding = "unlimited" if least is None else f"{least} with their threads"
    fix = "ulimit -u 4096, or docker run --pids-limit -1"
    return judged("processes", finding, fix, warning=least is not None and least < _MIN_PROCESSES)


def _clock() -> Check:
    now = time.time()
    finding = time.strftime("%F %T %Z", time.localtime(now))
    return judged(
        "clock", finding, "set it: timedatectl set-ntp true", warning=now < _EARLIEST_CLOCK_S
    )


def _program(name: str, ask: Callable[[str], str] | None = None) -> Check:
    path = shutil.which(name)
    if path is None:
        return judged(name, "not installed", _PROGRAMS[name], warning=True)
    return judged(name, (ask or _version)(name) or path, "")


def _version(name: str) -> str:
    """The first version number that a program prints; ``""`` for none."""
    option = "-V" if name == "ssh" else "--version"
    try:
        done = subprocess.run(
            [name, option],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"[0-9]+\.[0-9][\w.]*", done.stdout + done.stderr)
    return match[0] if match else ""
