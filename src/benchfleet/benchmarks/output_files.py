"""The files that a script writes: those in its folder, and the one that cells may share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from benchfleet.domain.names import path_part
from benchfleet.host_lock import lock_file, locked

# Every cell has these of its own; results refuse another's.
_RESERVED_NAMES = frozenset(
    {"cell.json", "samples.jsonl", "log.txt", "failure.json", "telemetry.jsonl"}
)


@contextmanager
def alone_with(file: Path | None, while_waiting: Callable[[], object]) -> Iterator[None]:
    """Let the other cells of this host wait that would write the same file; None: no file."""
    if file is None:
        yield
        return
    name = sha256(os.fsencode(os.path.realpath(file))).hexdigest()[:16]
    with locked(lock_file(f"output-{name}", os.environ), while_waiting):
        yield


def rename_reserved_files(folder: Path) -> None:
    """Rename what could not be kept as it is called: ``.state`` to ``own_.state``."""
    for current, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            top = Path(current) == folder
            new_name = _keepable(name, reserved=top and name in _RESERVED_NAMES)
            if new_name == name:
                continue
            target, number = Path(current, new_name), 2
            while os.path.lexists(target):
                target, number = Path(current, f"{new_name}_{number}"), number + 1
            os.rename(Path(current, name), target)


def _keepable(name: str, *, reserved: bool) -> str:
    try:
        if not reserved and path_part(name) == name:
            return name
        return path_part(f"own_{name}")
    except ValueError:
        printable = "".join(c if c.isprintable() else "_" for c in name).strip()
        return path_part(f"own_{printable[:40]}".strip())
