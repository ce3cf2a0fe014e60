"""The files that seal an attempt, on their way to the disk: of one attempt, or of a group."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchfleet.results import layout as names
from benchfleet.results.disk import SyncedFiles, sync_folder

BESIDE = f".{names.SAMPLES}.draft"  # the sealed samples, before they replace the recorded ones


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """An attempt whose files are complete and synced."""

    digest: str  # SHA-256 of cell.json
    metrics: Mapping[str, float]  # the summary that the ledger keeps too
    reported: Mapping[str, float | bool] = field(default_factory=dict)  # by the benchmark itself


@dataclass(frozen=True, kw_only=True)
class StagedFiles:
    """All files to be written into an attempt's folder to seal it."""

    folder: Path
    contents: Mapping[str, bytes]  # by name
    samples: str  # the name of the samples among these
    changed: Sequence[Path]  # folders with new names in them, the innermost first
    sealed: Sealed
    files: SyncedFiles = field(default_factory=SyncedFiles)

    def write(self) -> None:
        """Write the files and start to sync them."""
        try:
            self.files.write(self.folder, self.contents)
        except OSError:
            self._drop()
            raise

    def wait(self) -> None:
        """Wait until the files are synced; their names are not yet."""
        try:
            self.files.wait()
            if self.samples == BESIDE:
                os.replace(f"{self.folder}/{BESIDE}", f"{self.folder}/{names.SAMPLES}")
        except OSError:
            self._drop()
            raise

    def _drop(self) -> None:
        """Remove what was written; the recorded samples stay as they were."""
        self.files.close()
        for name in (self.samples, names.CELL):
            (self.folder / name).unlink(missing_ok=True)


def sync_all(group: Sequence[StagedFiles]) -> Sequence[Sealed | OSError]:
    """Seal a group: for each attempt what it became, durable now, or the disk's error.

    All files of the group are written before the first is waited for, so that the disk syncs them
    together. A folder that several attempts share is synced once.
    """
    errors: dict[int, OSError] = {}
    for step in (StagedFiles.write, StagedFiles.wait):
        for index, staged in enumerate(group):
            if index not in errors:
                try:
                    step(staged)
                except OSError as error:
                    errors[index] = error
    changed: dict[Path, list[int]] = {}
    for index, staged in enumerate(group):
        for folder in staged.changed if index not in errors else ():
            changed.setdefault(folder, []).append(index)
    for folder, indices in changed.items():
        try:
            sync_folder(folder)
        except OSError as error:
            errors.update(dict.fromkeys(indices, error))
    return [errors.get(index, staged.sealed) for index, staged in enumerate(group)]
