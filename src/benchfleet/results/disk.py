"""Files as results need them: synced, digested, replaced in one step, not read through a link."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from os.path import isdir
from pathlib import Path
from typing import Any

from benchfleet.errors import ResultsError

PACKED_SUFFIX = ".gz"  # behind the name of a file that was compressed where it lies
TAKEN_SUFFIX = ".taken"  # and of the note that tells where it was brought, or that it was deleted

_FIRST_READ_BYTES, _READ_BYTES = 2**14, 2**20
_REPLACE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
_NOT_PLAIN_ERRNOS = frozenset({errno.ELOOP, errno.EMLINK, errno.ENXIO})  # a link, a socket


def open_plain(file: Path | str) -> int:
    """Open a regular file to read it, and return its descriptor, which the caller closes; what is
    none is not there: FileNotFoundError.

    A link is not followed, and a pipe is not waited for.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NOT_PLAIN_ERRNOS:
            raise _no_plain_file(file) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_plain_file(file)
    return handle


def read_plain(file: Path | str) -> bytes:
    """The content of a regular file. Raises OSError as `open_plain` does."""
    handle = open_plain(file)
    try:
        return b"".join(_pieces(handle))
    finally:
        os.close(handle)


def digest_of(file: Path | str, *, synced: bool = False) -> str:
    """The SHA-256 of a regular file; `synced`: it is durable when this returns. An empty one has
    nothing to sync but its name, which its folder has."""
    digest, empty = hashlib.sha256(), True
    handle = open_plain(file)
    try:
        for piece in _pieces(handle):
            digest.update(piece)
            empty = False
        if synced and not empty:
            os.fsync(handle)
    finally:
        os.close(handle)
    return digest.hexdigest()


def content_digest(file: Path | str) -> str:
    """The SHA-256 of what a file held when it was sealed: of itself, of what is in ``<file>.gz``
    where that took its place, or as the note says that was left of it. Raises OSError,
    FileNotFoundError where there is none of these."""
    try:
        return digest_of(file)
    except FileNotFoundError:
        digest = hashlib.sha256()
    try:
        for piece in unpacked(f"{file}{PACKED_SUFFIX}"):
            digest.update(piece)
    except FileNotFoundError:
        return str(taken_note(file).get("sha256", ""))
    return digest.hexdigest()


def taken_note(file: Path | str) -> dict[str, Any]:
    """The note of a file that `archive` moved or deleted. Raises FileNotFoundError."""
    try:
        note = json.loads(read_plain(f"{file}{TAKEN_SUFFIX}"))
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def leave_taken_note(file: Path, **note: Any) -> None:
    """Say beside a file that goes what it was, and where it is. On a full disk the note takes the
    room of the file, which is gone then. Raises OSError, and leaves the file as it was."""
    content, beside = json.dumps(note).encode() + b"\n", Path(f"{file}{TAKEN_SUFFIX}")
    try:
        write_synced(file.parent, {beside.name: content})
    except OSError as error:
        beside.unlink(missing_ok=True)
        if error.errno != errno.ENOSPC:
            raise
        os.rename(file, beside)
        with open(beside, "r+b") as opened:
            opened.write(content)
            opened.truncate()
            opened.flush()
            os.fsync(opened.fileno())
    sync_folder(file.parent)


def unpacked(file: Path | str) -> Iterator[bytes]:
    """What is in a compressed file, piece by piece. Raises OSError."""
    import gzip
    import zlib

    with open(open_plain(file), "rb") as packed, gzip.GzipFile(fileobj=packed) as opened:
        try:
            while piece := opened.read(_READ_BYTES):
                yield piece
        except (EOFError, zlib.error) as error:
            raise gzip.BadGzipFile(errno.EINVAL, f"it is cut short or torn: {error}") from error


def _pieces(handle: int) -> Iterator[bytes]:
    size = _FIRST_READ_BYTES  # most files are; room for a large piece is not got for nothing
    while piece := os.read(handle, size):
        yield piece
        size = _READ_BYTES


def encoded(text: str) -> bytes:
    """As text is written here: whatever cannot be UTF-8 is escaped."""
    return text.encode("utf-8", "backslashreplace")


def subfolders(folder: Path | str, levels: int = 1) -> list[str]:
    """The folders so many levels below a folder, in their order, without hidden ones. Unlike
    Path.glob it takes it well if a runner moves one away meanwhile. Raises OSError."""
    if levels == 0:
        return [str(folder)]
    try:
        with os.scandir(folder) as entries:
            inside = [
                one.path
                for one in entries
                if not one.name.startswith(".")
                if one.is_dir(follow_symlinks=False) or (one.is_symlink() and isdir(one.path))
            ]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return [path for one in sorted(inside) for path in subfolders(one, levels - 1)]


def plain_content(folder: Path) -> tuple[dict[str, bool], list[Path], list[str]]:
    """The names of the files in a folder, with whether they are empty, and the folders, the
    outermost first. Links, pipes and the like are removed: these are the names of the third."""
    files: dict[str, bool] = {}
    folders, dropped = [folder], []
    for part in folders:  # it grows as we go
        inside = "" if part is folder else f"{part.relative_to(folder)}/"
        with os.scandir(part) as entries:
            for entry in entries:
                name = inside + entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(part / entry.name)
                elif not entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)
                    dropped.append(name)
                else:
                    files[name] = entry.stat(follow_symlinks=False).st_size == 0
    return files, folders, dropped


class SyncedFiles:
    """Files that are replaced, and are durable, except for their names, after `wait`. All of them
    are written before the first is synced, so that the disk syncs them together."""

    def __init__(self) -> None:
        self._handles: list[int] = []

    def write(self, folder: Path, contents: Mapping[str, bytes]) -> None:
        for name, content in contents.items():
            handle = os.open(f"{folder}/{name}", _REPLACE_FLAGS, 0o666)
            self._handles.append(handle)
            write_all(handle, content)
            _begin_sync(handle)

    def wait(self) -> None:
        for handle in self._handles:
            os.fsync(handle)
        self.close()

    def close(self) -> None:
        """Let go of them, however far they came."""
        while self._handles:
            os.close(self._handles.pop())


def write_synced(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace files of a folder; durable when this returns, except for their names."""
    files = SyncedFiles()
    try:
        files.write(folder, contents)
        files.wait()
    finally:
        files.close()


def write_all(handle: int, content: bytes) -> None:
    """Write all of it; a disk that gets full takes a part, and refuses the rest."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def write_atomically(file: Path, text: str) -> None:
    """Replace a file in one step, so that no reader sees half of it."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_bytes(encoded(text))
        os.replace(beside, file)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _begin_sync(handle: int) -> None:
    """Have the kernel begin to write a file out, where it can be asked to."""
    if sys.platform == "linux":
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def sync_folder(folder: Path | str) -> None:
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


def _no_plain_file(file: Path | str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "not a regular file", str(file))


def make_folder(folder: Path) -> None:
    """Make a results folder. Raises ResultsError, with what to do, where it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-{os.urandom(4).hex()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ResultsError(
            f"the results folder {folder} cannot be written ({error.strerror}); "
            "name another with --results or under 'results' in the campaign file"
        ) from None
