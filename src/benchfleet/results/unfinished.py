"""What an archive that was cut short left beside a sealed file, and ending it; also one that
deletes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.disk import PACKED, TAKEN, digest_of, sync_folder, taken_note
from benchfleet.results.packing import told_of_packed


def unfinished(folder: Path, more: Collection[str], files: Mapping[str, str]) -> dict[str, str]:
    """Which of the files that a seal does not name were left so, each with the sealed file that it
    is about; `files` are the sealed ones with their digests."""
    about = {left: name for name in files if name not in names.KEPT for left in _left_of(name)}
    known = {name: about[name] for name in more if name in about}
    return {left: name for left, name in known.items() if _fits(folder, left, name, files[name])}


def finish(folder: Path, left: str, name: str, digest: str) -> str:
    """End what was begun with the sealed file `name`, and say how it stands: the file goes where
    its copy is whole, and else what was `left` beside it. Raises OSError, or ResultsError where the
    file is not as it was sealed."""
    file = folder / name
    if digest_of(file) != digest:
        raise ResultsError(f"{name} is not as it was sealed")
    copy = folder / left if left == f"{name}{PACKED}" else None
    if left == f"{name}{TAKEN}" and (to := taken_note(file).get("to")):
        copy = Path(to)
    packed = copy is not None and _holds(copy, digest)
    gone = file if packed else folder / left
    os.unlink(gone)
    sync_folder(gone.parent)
    return (
        f"{name} is packed as {left if left.endswith(PACKED) else copy}"
        if packed
        else (f"{name} stays, {left} is removed")
    )


def _left_of(name: str) -> tuple[str, ...]:
    """What lies beside a file while it is packed or taken, the drafts with a dot in front."""
    above, slash, last = name.rpartition("/")
    draft = f"{above}{slash}.{last}"
    return f"{name}{PACKED}", f"{name}{TAKEN}", f"{draft}{PACKED}.part", f"{draft}{TAKEN}"


def _fits(folder: Path, left: str, name: str, digest: str) -> bool:
    """Whether it holds what was sealed, or says so; a draft need not be whole."""
    if left == f"{name}{PACKED}":
        return _holds(folder / left, digest)
    if left == f"{name}{TAKEN}":
        try:
            return taken_note(folder / name).get("sha256") == digest
        except OSError:
            return False
    return True


def _holds(copy: Path, digest: str) -> bool:
    try:
        return told_of_packed(copy)[0] == digest
    except OSError:
        return False
