"""Group commit: one fsync makes the transactions of several threads durable."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from benchfleet.errors import LedgerUnreachable

Sync = Callable[[int], None]  # of an open file

# What has been written over what was there before needs no commit of the file system's own.
sync_data: Sync = getattr(os, "fdatasync", os.fsync)


class GroupCommit:
    """Syncs the write-ahead log of a ledger: each sync covers all transactions before it."""

    def __init__(self, ledger: Path, sync: Sync) -> None:
        self._ledger, self._sync = ledger, sync
        self._log = os.open(f"{ledger}-wal", os.O_RDONLY)
        self._turn = threading.Lock()
        self._committed = self._synced = 0  # transactions of this handle: made, and durable
        self._lost: OSError | None = None  # why the disk may not have kept what was written

    def close(self) -> None:
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def committed(self) -> int:
        """Note that a transaction was made; its number."""
        self._committed += 1
        return self._committed

    def wait(self, commit: int) -> None:
        """Have what was committed until then synced; of those who wait one does it for all."""
        with self._turn:
            if self._synced >= commit:
                return
            brings = self._committed
            try:
                if self._lost is None:  # not asked again: the kernel reports a loss once
                    self._sync(self._log)
            except OSError as error:
                self._lost = error
            if self._lost is not None:
                raise LedgerUnreachable(
                    f"fsync of {self._ledger} failed: {self._lost.strerror}; recent commits may "
                    "not be durable; check the disk and run again"
                ) from self._lost
            self._synced = brings
