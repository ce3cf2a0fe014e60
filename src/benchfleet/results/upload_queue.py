"""What is published here and not put to its place yet: one small file for each result.

::

    <results>/.outbox/place              where they go; another one than before takes all of them
                     <fingerprint>.json  path and digest of a result

An entry is durable before its result is public, so that no crash leaves a result behind. It says
what is to be put, and is no result itself: what the ledger calls done by another digest is dropped.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from benchfleet.results.disk import make_folders, read_plain, sync_folder, write_synced
from benchfleet.results.layout import Layout

_PLACE = "place"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A result that is to be put."""

    fingerprint: str
    path: str  # the public one
    digest: str  # of its cell.json


class Outbox:
    """The outbox of one results folder. Several runners may share it."""

    def __init__(self, layout: Layout) -> None:
        self._folder = layout.outbox

    def add(self, entries: Iterable[Entry]) -> None:
        """Note what is to be put; durable when this returns."""
        texts = {f"{one.fingerprint}.json": json.dumps(asdict(one)).encode() for one in entries}
        if texts:
            changed = make_folders(self._folder)
            write_synced(self._folder, texts)
            for folder in (*changed, self._folder):
                sync_folder(folder)

    def entries(self) -> list[Entry]:
        """All that waits; what cannot be read is none."""
        found = []
        for file in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                found.append(Entry(**json.loads(read_plain(file))))
        return found

    def drop(self, entry: Entry) -> None:
        """It is put, or not wanted any more."""
        (self._folder / f"{entry.fingerprint}.json").unlink(missing_ok=True)

    def __len__(self) -> int:
        try:
            return sum(name.endswith(".json") for name in os.listdir(self._folder))
        except FileNotFoundError:
            return 0

    def is_for(self, place: str) -> bool:
        """Whether it was filled for this place all along."""
        try:
            return read_plain(self._folder / _PLACE).decode() == place
        except (OSError, ValueError):
            return False

    def begin(self, place: str) -> None:
        """From now on it is for this place; all that it lacks was added."""
        make_folders(self._folder)
        write_synced(self._folder, {_PLACE: place.encode()})
        sync_folder(self._folder)
