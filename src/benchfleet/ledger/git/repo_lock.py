"""A lock for the threads and processes of an installation that share its mirror."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from types import TracebackType

from benchfleet.errors import LedgerUnreachable

LOCK_TIMEOUT_S = 600.0  # a push takes a few seconds, and a remote that is away is waited for
_PAUSE_S = 0.05  # between two tries


class RepoLock:
    """A lock on a file, held by one thread of one process; that thread may enter it again."""

    def __init__(self, file: Path, timeout: float = LOCK_TIMEOUT_S) -> None:
        self._file, self._timeout = file, timeout
        self._lock, self._depth = threading.RLock(), 0
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            if not self._depth:
                self._take()
            self._depth += 1
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._depth:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._lock.release()

    def _take(self) -> None:
        until = time.monotonic() + self._timeout
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > until:
                    raise LedgerUnreachable(
                        f"another process of this machine has held {self._file} for "
                        f"{self._timeout:g} s; end it, or let it go on where it was stopped"
                    ) from None
                time.sleep(_PAUSE_S)
