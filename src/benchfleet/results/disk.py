"""Files as results need them: synced, digested, replaced in one step, not read through a link."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

_PIECE = 2**20
_NO_PLAIN_FILE = frozenset({errno.ELOOP, errno.EMLINK, errno.ENXIO})  # a link, a socket


def open_plain(file: Path) -> BinaryIO:
    """Open a regular file to read it; what is none is not there: FileNotFoundError.

    A link is not followed, and a pipe is not waited for.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NO_PLAIN_FILE:
            raise _no_plain_file(file) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_plain_file(file)
    return open(handle, "rb")


def read_plain(file: Path) -> bytes:
    """The content of a regular file. Raises OSError as `open_plain` does."""
    with open_plain(file) as opened:
        return opened.read()


def digest_of(file: Path, *, synced: bool = False) -> str:
    """The SHA-256 of a regular file; `synced`: it is durable when this returns. An empty one has
    nothing to sync but its name, which its folder has."""
    digest = hashlib.sha256()
    with open_plain(file) as opened:
        while piece := opened.read(_PIECE):
            digest.update(piece)
        if synced and opened.tell():
            os.fsync(opened.fileno())
    return digest.hexdigest()


def write_synced(file: Path, text: str) -> str:
    """Write a file and return its SHA-256; durable when this returns, but for its name."""
    data = text.encode("utf-8", "backslashreplace")
    with open(file, "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    return hashlib.sha256(data).hexdigest()


def replace_synced(file: Path, text: str, *, beside: Path) -> str:
    """As `write_synced`, in one step: on a disk that takes no more, or where this process ends,
    the file is as it was."""
    try:
        digest = write_synced(beside, text)
        os.replace(beside, file)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return digest


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folders(folder: Path) -> list[Path]:
    """Make a folder with those above it; the folders that got a new name, which is to be synced."""
    try:
        os.mkdir(folder)
    except FileNotFoundError:
        changed = make_folders(folder.parent)
        return [*changed, *make_folders(folder)]
    except FileExistsError:
        if not folder.is_dir():
            raise
        return []
    return [folder.parent]


def _no_plain_file(file: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "there is no plain file", str(file))
