"""The signal file: orders to the slots of a run, written by hand into its results folder."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from benchfleet.results.disk import open_plain

_MAX_BYTES = 2**16  # bytes


class SignalFile:
    """Takes the lines of a file once its writer is done.

    A rename takes it, so that only one of several runners has it. Two looks in a row must find it
    unchanged, so that no line is cut. Only a plain file is taken.
    """

    def __init__(self, file: Path, aside: Path) -> None:
        self._file, self._aside = file, aside
        self._seen: tuple[int, int, int] | None = None

    def take(self) -> list[str]:
        """The lines, once. Raises OSError where they were taken and cannot be read."""
        try:
            stat_result = os.lstat(self._file)
        except OSError:
            self._seen = None
            return []
        mark = (stat_result.st_ino, stat_result.st_size, stat_result.st_mtime_ns)
        if not stat.S_ISREG(stat_result.st_mode):
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
                content = opened.read(_MAX_BYTES)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self._aside)
        return content.decode("utf-8", "replace").splitlines()
