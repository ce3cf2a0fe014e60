"""What a script left in its folder, under names that a results folder can bear."""

from __future__ import annotations

import os
from pathlib import Path

from benchfleet.domain.names import path_part

# Every cell has these of its own; results refuse another's.
_TAKEN = frozenset({"cell.json", "samples.jsonl", "log.txt", "failure.json", "telemetry.jsonl"})


def make_keepable(folder: Path) -> None:
    """Rename what could not be kept as it is called: ``.state`` to ``own_.state``."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            top = Path(place) == folder
            wanted = _keepable(name, taken=top and name in _TAKEN)
            if wanted == name:
                continue
            target, number = Path(place, wanted), 2
            while os.path.lexists(target):
                target, number = Path(place, f"{wanted}_{number}"), number + 1
            os.rename(Path(place, name), target)


def _keepable(name: str, *, taken: bool) -> str:
    try:
        if not taken and path_part(name) == name:
            return name
        return path_part(f"own_{name}")
    except ValueError:
        printable = "".join(c if c.isprintable() else "_" for c in name).strip()
        return path_part(f"own_{printable[:40]}".strip())
