"""A series of checkpoints: which are there, complete, and at which step."""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from benchfleet.models.base import Adapter, adapter_class

SETTLE_S = 10.0  # seconds without a change, before files count as written
LAST_NUMBER = r"(\d+)\D*$"  # the step, where no pattern is named


@dataclass(frozen=True, kw_only=True)
class CheckpointSeries:
    """Folders or revisions that match a glob, each with its step."""

    adapter: str
    where: str  # a glob of folders, absolute; or NAME@GLOB for revisions of a hub's model
    step: str = LAST_NUMBER  # a regular expression; its first group is the step
    every: int = 1  # only steps that this divides

    @property
    def hub_name(self) -> str:
        """The model on the hub; ``""`` for folders."""
        name, at, _ = self.where.partition("@")
        return name if at and not name.startswith("/") else ""

    def sources(self, *, now: Callable[[], float] = time.time) -> dict[int, str]:
        """The complete checkpoints by step, ascending: a folder, or ``NAME@REVISION``.

        A folder in which a file changed in the last `SETTLE_S` seconds may still be written, so
        it is left out. Raises ValueError if two checkpoints have one step, or the hub has no such
        model.
        """
        kind = adapter_class(self.adapter)
        names = self._revisions(kind) if self.hub_name else self._folders()
        sources: dict[int, str] = {}
        for source, name in sorted(names.items()):
            match = re.search(self.step, name)
            step = int(match[1]) if match else None
            if step is None or step % self.every:
                continue
            if step in sources:
                raise ValueError(
                    f"{sources[step]} and {source} are both step {step}; set 'step' to a pattern "
                    "that tells them apart"
                )
            if self.hub_name or _is_complete(Path(source), kind, now()):
                sources[step] = source
        return dict(sorted(sources.items()))

    def _folders(self) -> dict[str, str]:
        return {folder: Path(folder).name for folder in glob.glob(self.where)}

    def _revisions(self, kind: type[Adapter]) -> dict[str, str]:
        name, _, pattern = self.where.partition("@")
        names = (one for one in kind.revisions(name) if fnmatchcase(one, pattern))
        return {f"{name}@{one}": one for one in names}


def _is_complete(folder: Path, kind: type[Adapter], now: float) -> bool:
    """Whether a folder holds a whole model, in which nothing changed lately."""
    try:
        kind.checkpoint(str(folder))
        newest = max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except (OSError, ValueError):
        return False
    return now - newest >= SETTLE_S
