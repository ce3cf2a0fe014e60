"""The queue of published results that are not in the campaign's store yet: a file per result.

::

    <results>/.outbox/place              URL of the store; a change queues all results again
                     <fingerprint>.json  path and digest of a result

An entry is durable before its result is public, so a crash loses no upload. An entry whose digest
differs from the ledger's is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchfleet.results.disk import make_folders, read_plain, sync_folder, write_synced

_STORE_FILE = "place"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A result to upload."""

    fingerprint: str
    path: str  # public path
    digest: str  # of its cell.json


class UploadQueue:
    """The upload queue in a folder, for one store. Several runners may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries; durable when this returns."""
        files = {f"{one.fingerprint}.json": json.dumps(asdict(one)).encode() for one in entries}
        if files:
            changed = make_folders(self._folder)
            write_synced(self._folder, files)
            for folder in (*changed, self._folder):
                sync_folder(folder)

    def entries(self) -> list[Entry]:
        """All readable entries."""
        return [entry for file in sorted(self._folder.glob("*.json")) if (entry := _read(file))]

    def drop(self, entry: Entry) -> None:
        """Remove an entry that is uploaded or obsolete. Another result of its cell, queued
        meanwhile, stays."""
        file = self._folder / f"{entry.fingerprint}.json"
        if _read(file) == entry:
            file.unlink(missing_ok=True)

    def __len__(self) -> int:
        try:
            return sum(name.endswith(".json") for name in os.listdir(self._folder))
        except FileNotFoundError:
            return 0

    def is_for(self, store_url: str) -> bool:
        """Whether the queue was filled for this store."""
        try:
            return read_plain(self._folder / _STORE_FILE).decode() == store_url
        except (OSError, ValueError):
            return False

    def unassign(self) -> None:
        """Have the next run queue all results of the folder: some came that no run published."""
        (self._folder / _STORE_FILE).unlink(missing_ok=True)

    def assign_to(self, store_url: str) -> None:
        """Note the store, once all its missing results are queued."""
        make_folders(self._folder)
        write_synced(self._folder, {_STORE_FILE: store_url.encode()})
        sync_folder(self._folder)


def _read(file: Path) -> Entry | None:
    """The entry in a file; None where it cannot be read."""
    try:
        return Entry(**json.loads(read_plain(file)))
    except (OSError, ValueError, TypeError):
        return None
