"""Files and folders compressed, durable and read back before anybody takes the copy for one; and
the note that is left of a file which goes."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tarfile
import time
from functools import partial
from pathlib import Path
from typing import IO

from benchfleet.errors import ResultsError
from benchfleet.results.disk import (
    TAKEN,
    digest_of,
    make_folders,
    open_plain,
    sync_folder,
    unpacked,
    write_synced,
)

_PIECE = 2**20


def free(target: Path) -> Path:
    """The place itself, or one beside it where something lies there."""
    number, free = 0, target
    while os.path.lexists(free):
        number += 1
        free = target.with_name(f"{number}-{target.name}")
    return free


def packed(place: Path, target: Path) -> None:
    """Compress a file or a folder to `target`; durable and read back when this returns. Raises
    ResultsError where it changed meanwhile."""
    changed = make_folders(target.parent)
    part = target.with_name(f".{target.name}.part")
    try:
        with open(part, "wb") as out:
            with gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0) as stream:
                wanted = _fill(place, stream)
            out.flush()
            os.fsync(out.fileno())
        if _contained(part, folder=place.is_dir()) != wanted:
            raise ResultsError(f"{place} changed while it was packed; it lies as it did")
        os.rename(part, target)
        for folder in (target.parent, *changed):
            sync_folder(folder)
    finally:
        part.unlink(missing_ok=True)


def leave_note(file: Path, digest: str, size: int, to: str) -> None:
    """Say beside a file that goes what it was, and where it is."""
    told = {"sha256": digest, "bytes": size, "to": to, "at": round(time.time(), 3)}
    name = f"{file.name}{TAKEN}"
    write_synced(file.parent, {f".{name}": json.dumps(told).encode() + b"\n"})
    os.rename(file.parent / f".{name}", file.parent / name)
    sync_folder(file.parent)


def told_of_packed(file: Path) -> tuple[str, int]:
    """The digest of what is in a compressed file, and how many bytes that is. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    for piece in unpacked(file):
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


def _fill(place: Path, stream: gzip.GzipFile) -> dict[str, str]:
    """Write it; the digest of each file of it, afterwards, by name."""
    if not place.is_dir():
        with open(open_plain(place), "rb") as source:
            shutil.copyfileobj(source, stream, _PIECE)
        return {"": digest_of(place)}
    with tarfile.open(fileobj=stream, mode="w|") as tar:
        tar.add(place, arcname=place.name, filter=partial(_storable, place.parent))
    files = (file for file in place.rglob("*") if file.is_file() and not file.is_symlink())
    return {file.relative_to(place.parent).as_posix(): digest_of(file) for file in files}


def _storable(above: Path, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files, each whole though it may have several names, with folders and links."""
    if member.islnk():
        member.type = tarfile.REGTYPE
        member.size = os.lstat(above / member.name).st_size
    return member if member.isfile() or member.isdir() or member.issym() else None


def _contained(file: Path, *, folder: bool) -> dict[str, str]:
    if not folder:
        return {"": told_of_packed(file)[0]}
    found = {}
    with tarfile.open(file, mode="r|gz") as tar:
        for member in tar:
            if member.isfile() and (source := tar.extractfile(member)) is not None:
                found[member.name] = _digest_of_stream(source)
    return found


def _digest_of_stream(source: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := source.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
