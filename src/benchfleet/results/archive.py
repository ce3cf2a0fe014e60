"""Compress, move or delete old attempts, slot logs and raw files; never a result.

::

    <results>/.archive/attempts/<fingerprint>/<attempt>.tar.gz
                       logs/<slot>.log.gz

Raw files of results are compressed where they lie: ``log.txt.gz`` in place of ``log.txt``. If one
is moved away or deleted, ``log.txt.taken`` keeps its digest and says where it is. A file is removed
only after its copy was read back and synced, so an archive may be killed at any moment; the next
one continues.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tarfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.part import is_part_id
from benchfleet.errors import ResultsError
from benchfleet.file_digest import stream_digest
from benchfleet.results import layout as names
from benchfleet.results.disk import (
    PACKED_SUFFIX,
    TAKEN_SUFFIX,
    digest_of,
    leave_taken_note,
    make_folders,
    sync_folder,
)
from benchfleet.results.layout import Layout
from benchfleet.results.read import is_published, sealed
from benchfleet.results.samples import age, furthest_attempt
from benchfleet.results.upload_queue import UploadQueue

Kind = Literal["attempts", "raw", "logs"]
KINDS: tuple[str, ...] = get_args(Kind)
_COMPRESSED = (
    PACKED_SUFFIX,
    TAKEN_SUFFIX,
    ".zst",
    ".xz",
    ".bz2",
    ".zip",
    ".png",
    ".jpg",
    ".parquet",
)
_MIN_RAW_BYTES = 4096  # a smaller file takes no less disk when compressed
_RESCORE_S = 86400.0  # the longest time that a scoring may use its folder


@dataclass(frozen=True, kw_only=True)
class Item:
    """A file or folder that may go."""

    kind: Kind
    path: Path
    name: str  # as people know it
    bytes: int
    age: float  # seconds since the last write to any part of it
    record: CellRecord | None = None  # its cell, as it was when this was found


class Archive:
    """Finds what may go, and compresses, moves or deletes it."""

    def __init__(self, layout: Layout, *, now: float, busy_since: float | None = None) -> None:
        """`busy_since`: when the oldest live run began; None without one."""
        self._layout, self._now, self._busy_since = layout, now, busy_since
        # what may not go: a noun, such as "log", and why
        self.retained: Counter[tuple[str, str]] = Counter()

    def items(
        self,
        records: Iterable[CellRecord],
        kinds: Collection[str],
        *,
        joined: Mapping[str, CellRecord] = {},
    ) -> Iterator[Item]:
        """What may go, by kind. `joined` are the parts whose results went into that of their cell,
        by fingerprint, each with its cell."""
        known_records = {str(record.fingerprint): record for record in records}
        if "attempts" in kinds:
            for folder in _entries(self._layout.attempts):
                record = known_records.get(folder.name)
                yield from self._attempts(folder, record, joined.get(folder.name, record))
        if "raw" in kinds:
            unsent = {entry.path for entry in UploadQueue(self._layout.outbox).entries()}
            for record in known_records.values():
                if record.path in unsent:
                    self.retained["result", "still to be uploaded"] += 1
                elif record.state == "success" and not is_part_id(record.id):
                    yield from self._raw(record)
        if "logs" in kinds:
            for file in filter(Path.is_file, _entries(self._layout.slots)):
                if self._busy_since is None or file.stat().st_mtime < self._busy_since - 1:
                    yield self._item("logs", file, file.name)
                else:
                    self.retained["log", "of slots that may be at work"] += 1

    def _attempts(
        self, folder: Path, record: CellRecord | None, result: CellRecord | None
    ) -> Iterator[Item]:
        """All attempts of a cell that has its result, which is that of `result`; of one that ended
        otherwise, neither the last nor the furthest one; none of any other cell."""
        attempts = sorted((one for one in _entries(folder) if one.is_dir()), key=age)
        if record is None or result is None or result.state in ("pending", "running"):
            why = "the ledger does not know" if record is None else "are pending or running"
            self.retained["attempt", f"of cells that {why}"] += len(attempts)
            return
        if result.state != "success":
            needed = {furthest_attempt(folder), *attempts[-1:]} & set(attempts)
            self.retained["attempt", "that a retry goes on from"] += len(needed)
            attempts = [one for one in attempts if one not in needed]
        elif not is_published(
            self._layout, result.path, result.outcome.digest if result.outcome else ""
        ):
            reason = "of cells whose result is not at its place"
            self.retained["attempt", reason] += len(attempts)
            return
        for attempt in attempts:
            item = self._item("attempts", attempt, f"{record.path} {attempt.name}", record)
            if attempt.name.startswith(names.RESCORED) and item.age < _RESCORE_S:
                self.retained["attempt", "now being scored"] += 1
            else:
                yield item

    def _raw(self, record: CellRecord) -> Iterator[Item]:
        """The raw files of a result."""
        folder = self._layout.published(record.path)
        try:
            files = sealed(folder)[0]["files"]
        except (ResultsError, LookupError, TypeError):
            return  # `verify` reports it
        for name in sorted(files):
            path = folder / name
            if (
                name not in names.REQUIRED_FILES
                and not name.endswith(_COMPRESSED)
                and not {f"{name}{PACKED_SUFFIX}", f"{name}{TAKEN_SUFFIX}"} & set(files)
                and path.is_file()
                and path.resolve() == folder.resolve() / name  # no link
                and path.stat().st_size > _MIN_RAW_BYTES
            ):
                yield self._item("raw", path, f"{record.path}/{name}", record)

    def _item(self, kind: Kind, path: Path, name: str, record: CellRecord | None = None) -> Item:
        size, newest = 0, 0.0
        for one in (path, *path.rglob("*")):
            with contextlib.suppress(OSError):
                status = one.lstat()
                size += 0 if one.is_dir() else status.st_size
                newest = max(newest, status.st_mtime)
        old = max(0.0, self._now - newest)
        return Item(kind=kind, path=path, name=name, bytes=size, age=old, record=record)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others from archiving or deleting here. Raises ResultsError."""
        import fcntl

        make_folders(self._layout.archive)
        with open(self._layout.archive / ".lock", "wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ResultsError("another archive or gc is at work in this folder") from None
            except OSError:
                pass  # a file system without locks
            for part in self._layout.archive.glob("*.part"):
                part.unlink()  # of one that was killed
            yield

    def compress(self, item: Item, to: Path | None) -> int:
        """Compress it, to the folder `to` if given; the bytes that takes. Raises OSError or
        ResultsError, and leaves it as it was."""
        digest = self._sealed_digest(item) if item.kind == "raw" else ""
        below = item.path.relative_to(self._layout.root)
        if item.kind == "raw" and to is None:
            target = item.path.with_name(f"{item.path.name}{PACKED_SUFFIX}")
            target.unlink(missing_ok=True)  # left by one that was killed
        else:
            below = below if item.kind == "raw" else Path(*below.parts[1:])
            suffix = ".tar.gz" if item.path.is_dir() else PACKED_SUFFIX
            target = (to or self._layout.archive) / item.kind / f"{below}{suffix}"
            while os.path.lexists(target):
                target = target.with_name(f"again-{target.name}")
        self._write(item.path, target, beside=to)
        if digest and to is not None:
            leave_taken_note(item.path, sha256=digest, bytes=item.bytes, to=str(target))
        self._remove(item.path)
        return target.stat().st_size

    def delete(self, item: Item) -> int:
        """Delete it; the bytes that remain. Raises OSError or ResultsError."""
        if item.kind == "raw":
            digest = self._sealed_digest(item)
            leave_taken_note(item.path, sha256=digest, bytes=item.bytes, to="")
        self._remove(item.path)
        return 0

    def _sealed_digest(self, item: Item) -> str:
        """The digest of a raw file. Raises ResultsError where it is not that of its seal."""
        folder = next(one for one in item.path.parents if (one / names.CELL).exists())
        digest = digest_of(item.path)
        if sealed(folder)[0]["files"].get(item.path.relative_to(folder).as_posix()) != digest:
            raise ResultsError(f"{item.name} is not as it was sealed; verify tells more")
        return digest

    def _write(self, path: Path, target: Path, *, beside: Path | None) -> None:
        """Write the compressed copy of a file or folder, sync it and read it back."""
        changed = [*make_folders(target.parent), *make_folders(beside or self._layout.archive)]
        part = (beside or self._layout.archive) / f"{os.urandom(4).hex()}.part"
        try:
            with open(part, "wb") as out:
                with gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=0) as stream:
                    if path.is_dir():
                        with tarfile.open(fileobj=stream, mode="w|") as tar:
                            tar.add(path, path.name, filter=partial(_storable, path.parent))
                    else:
                        with open(path, "rb") as source:
                            shutil.copyfileobj(source, stream)
                out.flush()
                os.fsync(out.fileno())
            if _compressed_digests(part, folder=path.is_dir()) != _digests(path):
                raise ResultsError(f"{path} changed while it was compressed; it was left")
            os.rename(part, target)
            for folder in (target.parent, *changed):
                sync_folder(folder)
        finally:
            part.unlink(missing_ok=True)

    def _remove(self, path: Path) -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        sync_folder(path.parent)
        if path.parent.parent == self._layout.attempts:
            with contextlib.suppress(OSError):  # it has other attempts
                path.parent.rmdir()


def archived_attempts(layout: Layout, fingerprint: str) -> dict[str, Path]:
    """The archived attempts of a cell in the results folder, by their folder's name."""
    folder = layout.archive / "attempts" / fingerprint
    return {file.name.removesuffix(".tar.gz"): file for file in folder.glob("*.tar.gz")}


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder, without links."""
    try:
        return sorted(one for one in folder.iterdir() if not one.is_symlink())
    except FileNotFoundError:
        return []


def _storable(above: Path, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files, each whole though it may have several names, folders and links; no pipes."""
    if member.islnk():
        member.type, member.size = tarfile.REGTYPE, os.lstat(above / member.name).st_size
    return member if member.isreg() or member.isdir() or member.issym() else None


def _digests(path: Path) -> dict[str, str]:
    """Of a file, or of each file of a folder by name."""
    if not path.is_dir():
        return {"": digest_of(path)}
    files = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return {file.relative_to(path.parent).as_posix(): digest_of(file) for file in files}


def _compressed_digests(file: Path, *, folder: bool) -> dict[str, str]:
    """The same of what a compressed file holds."""
    if not folder:
        with gzip.open(file) as content:
            return {"": stream_digest(content)}
    digests = {}
    with tarfile.open(file, mode="r|gz") as tar:
        for member in tar:
            if member.isfile() and (inside := tar.extractfile(member)) is not None:
                digests[member.name] = stream_digest(inside)
    return digests
