"""Putting the loose objects of a repository of our own into packs, beside what goes on there.

A loose object takes a block of the disk, and a finished cell leaves about twenty. What is packed is
named object by object, so that nothing needs to be reachable, or whole: a mirror lacks much of what
its commits lead to. Whoever looks for a loose object that has gone finds it in its pack.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchfleet.errors import GitError
from benchfleet.git.process import Git

LEAST = 6700  # loose objects; where git itself begins
MOST = 50  # packs, of which each is asked for an object
LARGE = 50_000_000  # bytes of a pack that is not written again


class Packer:
    """Packs the objects of one repository now and then, in a thread of its own."""

    def __init__(self, git: Git, *, least: int = LEAST, most: int = MOST) -> None:
        self._git, self._least, self._most = git, least, most
        self._objects = git.folder / "objects"
        self._thread: threading.Thread | None = None

    def soon(self) -> None:
        """Pack where there is enough to be packed, without waiting for it."""
        if self._thread is not None and self._thread.is_alive():
            return
        if 256 * len(_names(self._objects / "17")) >= self._least:  # all folders have as many
            self._thread = threading.Thread(target=self.pack, name="packer", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Return when nothing is being packed any more."""
        if self._thread is not None:
            self._thread.join()

    def pack(self) -> None:
        """Pack what is loose, unless another process does; what fails is left to the next time."""
        with suppress(GitError, OSError), self._alone() as alone:
            if not alone:
                return
            if loose := list(self._loose()):
                self._pack(loose)
                self._git.do("prune-packed", "--quiet")
            if len(packs := self._small()) >= self._most:
                indexes = [self._git.do("show-index", stdin=p.read_bytes()) for p in packs]
                lines = b"".join(indexes).decode().splitlines()
                made = self._pack(dict.fromkeys(line.split()[1] for line in lines))
                for index in packs:
                    if index.stem != made:
                        for suffix in (".idx", ".rev", ".bitmap", ".pack"):  # found by the first
                            index.with_suffix(suffix).unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Hold others off; whether that is so."""
        with (self._git.folder / "packing").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def _loose(self) -> Iterator[str]:
        for above in _names(self._objects):
            if len(above) == 2:
                for name in _names(self._objects / above):
                    if len(name) == 38:  # not what is being written
                        yield above + name

    def _small(self) -> list[Path]:
        """The indexes of packs that are worth writing again."""
        found = (self._objects / "pack").glob("pack-*.idx")
        return [
            index
            for index in found
            if not any(index.with_suffix(s).exists() for s in (".keep", ".promisor"))
            and index.with_suffix(".pack").stat().st_size < LARGE
        ]

    def _pack(self, names: list[str] | dict[str, None]) -> str:
        """Write a pack of these objects; its name."""
        told = "\n".join(names).encode() + b"\n"
        prefix = str(self._objects / "pack" / "pack")
        made = self._git.do("pack-objects", "--quiet", "--threads=1", prefix, stdin=told)
        return f"pack-{made.decode().strip()}"


def _names(folder: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return os.listdir(folder)
    return []
