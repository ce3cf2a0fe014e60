"""Packs the loose objects of a repository of our own, in the background.

A loose object takes a block of the disk, and a finished cell leaves about twenty. Objects are
packed by name: `git gc` and `git repack` need all that a commit leads to, and a local copy lacks
much of it. A reader that misses a loose object finds it in its pack.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from benchfleet.errors import GitError
from benchfleet.git.process import Git

MIN_LOOSE_OBJECTS = 6700  # where git itself begins


class Repacker:
    """Packs the objects of one repository now and then, in a thread of its own."""

    def __init__(self, git: Git, *, least: int = MIN_LOOSE_OBJECTS) -> None:
        self._git, self._least = git, least
        self._objects = git.folder / "objects"
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Pack if enough objects are loose, without waiting for it."""
        if self._thread is not None and self._thread.is_alive():
            return
        if 256 * len(_names(self._objects / "17")) >= self._least:  # all folders have as many
            self._thread = threading.Thread(target=self.pack, name="repack", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Return when the packing in progress is done."""
        if self._thread is not None:
            self._thread.join()

    def pack(self) -> None:
        """Pack what is loose, unless another process does; the next call repeats what fails."""
        with suppress(GitError, OSError), (self._git.folder / "packing").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if loose := list(self._loose()):
                prefix = str(self._objects / "pack" / "pack")
                names = "\n".join(loose).encode() + b"\n"
                self._git.output("pack-objects", "--quiet", "--threads=1", prefix, stdin=names)
                self._git.output("prune-packed", "--quiet")

    def _loose(self) -> Iterator[str]:
        for above in _names(self._objects):
            if len(above) == 2:
                for name in _names(self._objects / above):
                    if len(name) == 38:  # not what is being written
                        yield above + name


def _names(folder: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return os.listdir(folder)
    return []
