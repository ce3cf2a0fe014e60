"""Sealed files on their way to the disk, of one attempt or of several at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchfleet.results import layout as names
from benchfleet.results.disk import SyncedFiles, sync_folder

BESIDE = f".{names.SAMPLES}.draft"  # the sealed samples, before they take the recorded ones' place


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """An attempt whose files are complete and synced."""

    digest: str  # SHA-256 of cell.json
    metrics: Mapping[str, float]  # the summary that the ledger keeps too
    reported: Mapping[str, float | bool] = field(default_factory=dict)  # by the benchmark itself


@dataclass(frozen=True, kw_only=True)
class Draft:
    """All that is to be written into the folder of an attempt, to seal it."""

    folder: Path
    contents: Mapping[str, bytes]  # by name
    samples: str  # the name of the samples among these
    changed: Sequence[Path]  # folders with new names in them, the innermost first
    sealed: Sealed
    files: SyncedFiles = field(default_factory=SyncedFiles)

    def write(self) -> None:
        """Give all of it to the disk."""
        try:
            self.files.write(self.folder, self.contents)
        except OSError:
            self._drop()
            raise

    def wait(self) -> None:
        """Return when the disk has it, but for the names."""
        try:
            self.files.wait()
            if self.samples == BESIDE:
                os.replace(f"{self.folder}/{BESIDE}", f"{self.folder}/{names.SAMPLES}")
        except OSError:
            self._drop()
            raise

    def _drop(self) -> None:
        """On a disk that takes no more the recorded samples are as they were."""
        self.files.close()
        for name in (self.samples, names.CELL):
            (self.folder / name).unlink(missing_ok=True)


def sync_all(drafts: Sequence[Draft]) -> Sequence[Sealed | OSError]:
    """Seal these, durably when this returns, or what the disk said of it.

    The disk is given the files of all of them before any is waited for, so that it takes them
    together, and a folder that several have in common is synced once.
    """
    wrong: dict[int, OSError] = {}
    for step in (Draft.write, Draft.wait):
        for place, draft in enumerate(drafts):
            if place not in wrong:
                try:
                    step(draft)
                except OSError as error:
                    wrong[place] = error
    changed: dict[Path, list[int]] = {}
    for place, draft in enumerate(drafts):
        for folder in draft.changed if place not in wrong else ():
            changed.setdefault(folder, []).append(place)
    for folder, places in changed.items():
        try:
            sync_folder(folder)
        except OSError as error:
            wrong.update(dict.fromkeys(places, error))
    return [wrong.get(place, draft.sealed) for place, draft in enumerate(drafts)]
