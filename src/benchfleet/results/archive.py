"""What of a campaign's folder may be packed, moved or deleted, and doing so; never a result.

::

    <results>/.archive/attempts/<fingerprint>/<attempt>.tar.gz
                       logs/<slot>.log.gz
                       evidence/<moment>.tar.gz
                       index.jsonl                 what was packed or deleted, line by line

Raw files of results are compressed where they lie: ``log.txt.gz`` in place of ``log.txt``. Where
one is moved away or deleted, ``log.txt.taken`` keeps its digest and says where it is.

Nothing is removed before its copy was read back and is durable, and what is removed goes in one
step. So each moment is a good one to be killed at.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from benchfleet.domain.attempt import CellRecord
from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.disk import (
    PACKED,
    TAKEN,
    digest_of,
    make_folders,
    sync_folder,
)
from benchfleet.results.layout import Layout
from benchfleet.results.outbox import Outbox
from benchfleet.results.packing import free, leave_note, packed, told_of_packed
from benchfleet.results.read import is_published, sealed
from benchfleet.results.samples import age, furthest_attempt

What = Literal["attempts", "raw", "logs", "evidence", "archives"]
WHAT: tuple[str, ...] = get_args(What)
_UNPACKABLE = (".gz", ".zst", ".xz", ".bz2", ".zip", ".png", ".jpg", ".parquet")
_SMALL = 4096  # bytes; a raw file that is no larger would take no less when compressed
_DAY = 86400.0
_PIECE = 2**20
_INDEX, _LOCK, _REMOVED = "index.jsonl", ".lock", ".removed"


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that may be taken from where it lies."""

    what: What
    place: Path  # a file or a folder
    name: str  # as people know it
    bytes: int
    age: float  # seconds since anything of it was written
    record: CellRecord | None = None  # the cell whose it is, as it was when this was looked at


class Attic:
    """Finds what may go, and packs, moves or deletes it."""

    def __init__(self, layout: Layout, *, now: float, busy_since: float | None = None) -> None:
        """`busy_since`: when the oldest run began that goes on; None where none does."""
        self._layout, self._now, self._busy_since = layout, now, busy_since
        self.spared: dict[str, int] = {}  # what was left alone, by reason

    # Finding

    def items(self, records: Iterable[CellRecord], what: Collection[str]) -> Iterator[Item]:
        """What may go, kind by kind."""
        known = {str(record.fingerprint): record for record in records}
        if "attempts" in what:
            for folder in _entries(self._layout.attempts):
                yield from self._attempts(folder, known.get(folder.name))
        if kinds := [kind for kind in ("raw", "archives") if kind in what]:
            unsent = {entry.path for entry in Outbox(self._layout).entries()}
            for record in known.values():
                if record.path in unsent:
                    self._spare("results that wait to be put to their place", 1)
                elif record.state == "success":
                    for kind in kinds:
                        yield from self._raw(record, packed=kind == "archives")
        if "logs" in what:
            yield from self._logs()
        if "evidence" in what:
            for kept in _entries(self._layout.evidence):
                yield self._item("evidence", kept, kept.name)
        if "archives" in what:
            for kind in WHAT:
                for file in sorted((self._layout.archive / kind).rglob("*")):
                    if file.is_file() and not file.is_symlink():
                        yield self._item("archives", file, self._shown(file))

    def _attempts(self, folder: Path, record: CellRecord | None) -> Iterator[Item]:
        """The attempts of a cell that nothing goes on from: all, once it has its result; else
        neither the last one nor the one that got furthest."""
        attempts = sorted((one for one in _entries(folder) if one.is_dir()), key=age)
        if record is None or record.state in ("pending", "running"):
            why = "the ledger does not know" if record is None else "are pending or running"
            self._spare(f"attempts of cells that {why}", len(attempts))
            return
        if record.state == "success":
            digest = record.outcome.digest if record.outcome else ""
            if not is_published(self._layout, record.path, digest):
                self._spare("attempts of cells whose result is not at its place", len(attempts))
                return
        else:
            kept = {furthest_attempt(folder), *attempts[-1:]}
            self._spare("attempts that a retry goes on from", len(kept & set(attempts)))
            attempts = [one for one in attempts if one not in kept]
        for attempt in attempts:
            item = self._item("attempts", attempt, f"{record.path} {attempt.name}", record)
            if attempt.name.startswith(names.RESCORED) and item.age < _DAY:
                self._spare("attempts that are being scored", 1)
            else:
                yield item

    def _raw(self, record: CellRecord, *, packed: bool) -> Iterator[Item]:
        """The raw files of a result, as they were or packed where they lie."""
        folder = self._layout.published(record.path)
        try:
            content, _ = sealed(folder)
            files = sorted(content["files"])
        except (ResultsError, LookupError, TypeError):
            return  # of which `verify` tells
        for name in files:
            plain = name not in names.KEPT and not name.endswith(_UNPACKABLE)
            plain = plain and not {f"{name}{PACKED}", f"{name}{TAKEN}"} & set(files)
            place = folder / name
            if packed:
                if place.exists():  # its packing was cut short
                    continue
                place = folder / f"{name}{PACKED}"
            if plain and _is_below(folder, place) and (packed or place.lstat().st_size > _SMALL):
                shown = f"{record.path}/{place.relative_to(folder).as_posix()}"
                yield self._item("archives" if packed else "raw", place, shown, record)

    def _logs(self) -> Iterator[Item]:
        for file in _entries(self._layout.slots):
            if not file.is_file():
                continue
            if self._busy_since is not None and file.stat().st_mtime >= self._busy_since - 1:
                self._spare("logs of slots that may be at work", 1)
            else:
                yield self._item("logs", file, file.name)

    def _item(self, what: What, place: Path, name: str, record: CellRecord | None = None) -> Item:
        size, newest = 0, 0.0
        for one in (place, *(place.rglob("*") if place.is_dir() else ())):
            with contextlib.suppress(OSError):
                found = one.lstat()
                size += 0 if one.is_dir() else found.st_size
                newest = max(newest, found.st_mtime)
        return Item(
            what=what,
            place=place,
            name=name,
            bytes=size,
            age=max(0.0, self._now - newest),
            record=record,
        )

    def _spare(self, why: str, count: int) -> None:
        if count:
            self.spared[why] = self.spared.get(why, 0) + count

    # Doing

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep others from packing or deleting here meanwhile. Raises ResultsError."""
        import fcntl

        make_folders(self._layout.archive)
        with open(self._layout.archive / _LOCK, "wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ResultsError("another archive or gc is at work in this folder") from None
            except OSError:
                pass  # a file system without locks
            for left in self._layout.archive.glob(f"{_REMOVED}-*"):
                shutil.rmtree(left, ignore_errors=True)  # of one that was killed
            yield

    def pack(self, item: Item, to: Path | None) -> int:
        """Compress it: below the folder `to`, else in the archive, or a raw file where it lies.
        How many bytes that takes. Raises OSError or ResultsError, and then it lies as it did."""
        if item.what == "raw":
            return self._pack_raw(item, to)
        below = item.place.relative_to(self._layout.root).parts[1:]
        suffix = ".tar.gz" if item.place.is_dir() else PACKED
        target = (to or self._layout.archive) / item.what / "/".join(below)
        target = free(target.with_name(f"{target.name}{suffix}"))
        packed(item.place, target)
        self._note("packed", item, target)
        self._remove(item.place)
        return target.stat().st_size

    def _pack_raw(self, item: Item, to: Path | None) -> int:
        digest = digest_of(item.place)
        folder = item.place.parent
        while not (folder / names.CELL).exists():
            folder = folder.parent
        name = item.place.relative_to(folder).as_posix()
        if sealed(folder)[0]["files"].get(name) != digest:
            raise ResultsError(f"{item.name} is not as it was sealed; verify tells more")
        target = item.place.with_name(f"{item.place.name}{PACKED}")
        if to is not None:
            target = to / "raw" / f"{self._shown(item.place)}{PACKED}"
        elif target.exists():  # left by one that was killed in between
            target.unlink()
        packed(item.place, target := free(target))
        if to is not None:
            leave_note(item.place, digest, item.bytes, str(target))
            self._note("packed", item, target)
        item.place.unlink()
        sync_folder(item.place.parent)
        return target.stat().st_size

    def delete(self, item: Item) -> None:
        """Delete it. Raises OSError."""
        if item.what == "raw":
            leave_note(item.place, digest_of(item.place), item.bytes, "")
        elif item.what == "archives" and item.record is not None:
            leave_note(item.place.with_suffix(""), *told_of_packed(item.place), "")
        self._note("deleted", item, None)
        self._remove(item.place)

    def _remove(self, place: Path) -> None:
        """In one step, so that nothing half is left for others to find."""
        gone = self._layout.archive / f"{_REMOVED}-{os.urandom(4).hex()}"
        make_folders(self._layout.archive)
        os.mkdir(gone)
        os.rename(place, gone / place.name)
        sync_folder(place.parent)
        shutil.rmtree(gone, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are there
            if place.parent.parent == self._layout.attempts:
                os.rmdir(place.parent)

    def _note(self, act: str, item: Item, target: Path | None) -> None:
        line = {
            "act": act,
            "at": round(time.time(), 3),
            "what": item.what,
            "place": self._shown(item.place),
            "to": str(target.absolute()) if target else "",
            "bytes": item.bytes,
        }
        make_folders(self._layout.archive)
        with open(self._layout.archive / _INDEX, "ab") as index:
            index.write(json.dumps(line).encode() + b"\n")
            index.flush()
            os.fsync(index.fileno())

    def _shown(self, place: Path) -> str:
        return place.relative_to(self._layout.root).as_posix()


def packed_attempts(layout: Layout, fingerprint: str) -> dict[str, Path]:
    """Where the archived attempts of a cell are, by their folder's name."""
    found = {}
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        for line in (layout.archive / _INDEX).read_bytes().splitlines():
            told = json.loads(line)
            above, _, name = told["place"].rpartition("/")
            if told["act"] == "packed" and above == f".attempts/{fingerprint}":
                found[name] = Path(told["to"])
    return {name: place for name, place in found.items() if place.is_file()}


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder, without links."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(one.path) for one in entries if not one.is_symlink())
    except FileNotFoundError:
        return []


def _is_below(folder: Path, place: Path) -> bool:
    """Whether it is a plain file of this folder, reached by no link."""
    part = place
    while part != folder:
        if part.is_symlink() or part == part.parent:
            return False
        part = part.parent
    return place.is_file()
