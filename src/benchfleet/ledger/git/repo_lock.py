"""A lock for the threads and processes of an installation that share its mirror."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from types import TracebackType

from benchfleet.errors import LedgerAway, LedgerUnreachable
from benchfleet.ledger.call_timeout import CallTimeout

LOCK_TIMEOUT_S = 600.0  # a push takes a few seconds, and a remote that is away is waited for
LIMITED_TIMEOUT_S = 30.0  # for a call that is not to wait: who holds the lock may hang at a remote
_PAUSE_S = 0.05  # between two tries


class RepoLock:
    """A lock on a file, held by one thread of one process; that thread may enter it again.

    Where the calls of a thread are limited, it raises LedgerAway after half a minute.
    """

    def __init__(
        self, file: Path, calls: CallTimeout | None = None, timeout: float = LOCK_TIMEOUT_S
    ) -> None:
        self._file, self._timeout = file, timeout
        self._calls = calls or CallTimeout()
        self._lock, self._depth = threading.RLock(), 0
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> None:
        timeout = min(self._timeout, LIMITED_TIMEOUT_S) if self._calls.is_set else self._timeout
        until = time.monotonic() + timeout
        if not self._lock.acquire(timeout=timeout):
            raise self._busy(timeout)
        try:
            if not self._depth:
                self._take(until, timeout)
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

    def close(self) -> None:
        """Close its file. A closed lock cannot be entered (ValueError)."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1

    def _take(self, until: float, timeout: float) -> None:
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > until:
                    raise self._busy(timeout) from None
                time.sleep(_PAUSE_S)

    def _busy(self, timeout: float) -> LedgerUnreachable:
        if self._calls.is_set:
            return LedgerAway(f"a git command of this machine holds {self._file} for {timeout:g} s")
        return LedgerUnreachable(
            f"another process of this machine has held {self._file} for {timeout:g} s; end it, or "
            "let it go on where it was stopped"
        )
