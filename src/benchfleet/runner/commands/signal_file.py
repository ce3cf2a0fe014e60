"""The signal file: orders to the slots of a run, written by hand into its results folder."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from benchfleet.results.disk import open_plain

_LONGEST = 2**16  # bytes


class SignalFile:
    """Takes the lines of a file when whoever writes it seems to have done so.

    It is taken by one rename, so that of several runners one alone has it, and only when two looks
    in a row found it unchanged, so that no half of a line is. What is no plain file is let be.
    """

    def __init__(self, file: Path, aside: Path) -> None:
        self._file, self._aside = file, aside
        self._seen: tuple[int, int, int] | None = None

    def take(self) -> list[str]:
        """The lines, once. Raises OSError where they were taken and cannot be read."""
        try:
            found = os.lstat(self._file)
        except OSError:
            self._seen = None
            return []
        mark = (found.st_ino, found.st_size, found.st_mtime_ns)
        if not stat.S_ISREG(found.st_mode):
            return []
        if mark != self._seen:
            self._seen = mark
            return []
        self._seen = None
        self._aside.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(self._file, self._aside)
        except FileNotFoundError:  # another runner was faster
            return []
        try:
            handle = open_plain(self._aside)
            with open(handle, "rb") as opened:
                content = opened.read(_LONGEST)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self._aside)
        return content.decode("utf-8", "replace").splitlines()
