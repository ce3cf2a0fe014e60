"""A small disk for results, which can be filled and given room again."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

_SIZE = "160m"
_PIECE = b"\0" * 2**16
_LARGEST = 4096  # bytes of a file, where it is only made to seem that there is no room


class MountedDisk:
    """A file system in memory at `folder`, which takes root."""

    how = f"a tmpfs of {_SIZE}"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        self._folder, self._scheduler = folder, folder / "filler"

    def fill(self) -> None:
        """Take all the room that is left."""
        with contextlib.suppress(OSError), open(self._scheduler, "ab", buffering=0) as file:
            while file.write(_PIECE):
                continue

    def make_room(self) -> None:
        self._scheduler.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it, with all that is on it."""
        subprocess.run(["umount", "--lazy", str(self._folder)], check=True)


class LimitedFiles:
    """Stands in for a full disk where none can be mounted: the processes that `found` tells may
    let no file grow beyond a page (RLIMIT_FSIZE); writes then fail with EFBIG."""

    how = "RLIMIT_FSIZE, since no disk can be mounted here"

    def __init__(self, found: Callable[[], Iterable[psutil.Process]]) -> None:
        self._found = found
        self._limited: list[psutil.Process] = []

    def fill(self) -> None:
        for process in self._found():
            self._limit(process, _LARGEST)
            self._limited.append(process)

    def make_room(self) -> None:
        for process in self._limited:
            self._limit(process, None)
        self._limited.clear()

    def close(self) -> None:
        """There is nothing to let go of."""

    def _limit(self, process: psutil.Process, size: int | None) -> None:
        with contextlib.suppress(psutil.Error, OSError):
            _, most = process.rlimit(psutil.RLIMIT_FSIZE)
            process.rlimit(psutil.RLIMIT_FSIZE, (most if size is None else size, most))


Disk = MountedDisk | LimitedFiles


def small_disk(folder: Path, found: Callable[[], Iterable[psutil.Process]]) -> Disk:
    """A disk at `folder` that can be full; `found` tells the processes that write to it."""
    if os.geteuid() == 0:
        with contextlib.suppress(subprocess.CalledProcessError, FileNotFoundError):
            return MountedDisk(folder)
    return LimitedFiles(found)
