"""Whether published results are what was sealed, where the ledger has them; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Literal, get_args

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell, field_values
from benchfleet.domain.humanize import examples
from benchfleet.domain.names import folders_above
from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.consistency import wrong_content
from benchfleet.results.disk import PACKED_SUFFIX, TAKEN_SUFFIX, digest_of
from benchfleet.results.layout import Layout
from benchfleet.results.read import damage, file_damage, sealed, sealed_attempts, unsealed

Kind = Literal[
    "gone",  # the ledger has a result, and its folder is not there
    "unpublished",  # its sealed folder waits for the rename
    "outdated",  # a whole result of its cell lies there, and the ledger has another one
    "damaged",  # its folder is not as it was sealed
    "misplaced",  # the whole result of another cell lies there
    "foreign",  # what lies there is no result that the ledger knows
    "occupied",  # something lies where the result of a cell goes that has none yet
    "unknown",  # a result lies where the ledger has no cell
    "link",  # a link is on its way, or among its files
    "extra",  # the result is good, and files lie in its folder that were never sealed
    "unreadable",  # the system refuses to read it
    "newer",  # another benchfleet wrote its format
    "score",  # scored again, it has another score
]
KINDS: tuple[str, ...] = get_args(Kind)
_ALWAYS = (names.SAMPLES, names.METRICS, names.RAW_RESULTS, names.CONFIG, names.LOG)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong."""

    kind: Kind
    path: str  # of the folder, below the campaign's
    message: str
    fingerprint: str = ""  # of the cell that the path belongs to; "" if there is none
    elsewhere: str = ""  # the store or host that has the result of the ledger; "" if none is known

    @property
    def spoils(self) -> bool:
        """Whether its cell has no good result because of it."""
        return self.kind != "extra"

    def to_dict(self) -> dict[str, str]:
        return field_values(self)


class Verifier:
    """Looks at the folders of one campaign, held against what its ledger says."""

    def __init__(
        self, layout: Layout, records: Iterable[CellRecord], *, quick: bool = False
    ) -> None:
        self._layout, self._quick = layout, quick
        self._records = {record.path: record for record in records}
        self._digests = {
            record.outcome.digest: record
            for record in self._records.values()
            if record.state == "success" and record.outcome
        }
        self._waiting: dict[str, set[str]] = {}  # digests of sealed attempts, by fingerprint
        for folder, digest in sealed_attempts(layout).items():
            self._waiting.setdefault(folder.parent.name, set()).add(digest)

    def look(self, record: CellRecord) -> Finding | None:
        """The problem at the path of one cell, or None. A cell without a result has no folder."""
        try:
            problem = self._at(record)
        except ResultsError as error:
            problem = "unreadable", str(error)
        except OSError as error:
            problem = "unreadable", f"{error.strerror}: {error.filename}"
        if problem is None:
            return None
        kind, message = problem
        if kind not in ("gone", "unpublished") and self._waits(record):
            message += "; its own result waits under .attempts"
        return Finding(kind=kind, path=record.path, message=message, fingerprint=record.fingerprint)

    def _at(self, record: CellRecord) -> tuple[Kind, str] | None:
        done = record.state == "success"
        if link := self._link_above(record.path):
            message = f"{link} is a link, to {os.readlink(self._layout.root / link)}"
            return ("link", message) if done else None
        folder = self._layout.published(record.path)
        if not _exists(folder):
            if not done:
                return None
            if self._waits(record):
                return "unpublished", "done and sealed, and not at its place yet"
            return "gone", "done, and its folder is not there"
        if done:
            return self._result(record, folder)
        owner = self._owner(folder)
        if owner == record.fingerprint:
            return "unknown", f"a result of this cell, which the ledger has as {record.state}"
        return "occupied", f"something lies where the result of a {record.state} cell goes"

    def _waits(self, record: CellRecord) -> bool:
        digest = record.outcome.digest if record.outcome else ""
        return digest in self._waiting.get(record.fingerprint, ())

    def _link_above(self, path: str) -> str:
        parts = path.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        return next((one for one in above if os.path.islink(f"{self._layout.root}/{one}")), "")

    def _result(self, record: CellRecord, folder: Path) -> tuple[Kind, str] | None:
        outcome = record.outcome
        try:
            digest = digest_of(folder / names.CELL)
        except (FileNotFoundError, NotADirectoryError):
            return "damaged", f"{names.CELL} is missing"
        if outcome is None or digest != outcome.digest:
            return self._another(record, folder, digest)
        try:
            content, _ = sealed(folder)
        except ResultsError as error:
            return "newer", str(error)
        try:
            cell = Cell.from_dict(content["cell"])
            files, path = dict(content["files"]), content["path"]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return "newer", f"{names.CELL} is not as this benchfleet writes it: {error!r}"
        if not cell.fingerprint == content["fingerprint"] == record.fingerprint:
            return "foreign", f"{names.CELL} is of the cell {cell.id} ({cell.fingerprint[:8]})"
        if path != record.path:
            return "foreign", f"it was sealed for {path}"
        wrong = list(self._wrong_files(folder, files))
        if not self._quick and not wrong:
            wrong += wrong_content(folder, content, outcome.metrics)
        if wrong:
            return "damaged", "; ".join(wrong)
        plain, links = _content(folder)
        if links:
            return "link", f"{', '.join(links)} in it: no plain file"
        if more := unsealed(plain, files):
            return "extra", f"{examples(more)} {'was' if len(more) == 1 else 'were'} never sealed"
        return None

    def _wrong_files(self, folder: Path, files: Mapping[str, str]) -> Iterator[str]:
        yield from (f"{name} was never sealed" for name in _ALWAYS if name not in files)
        for name, digest in files.items():
            if not self._quick:
                wrong = file_damage(folder, name, digest)
            else:
                wrong = "" if _is_there(folder, name) else f"{name} is missing"
            if wrong:
                yield wrong

    def _another(self, record: CellRecord, folder: Path, digest: str) -> tuple[Kind, str]:
        """What a cell.json is that is not the one that the ledger took."""
        owner = self._digests.get(digest)
        if owner is not None:
            return "misplaced", f"the result of {owner.path} lies here"
        fingerprint = self._owner(folder)
        if not fingerprint:
            return "damaged", f"{names.CELL} cannot be read"
        if fingerprint != record.fingerprint:
            return "foreign", f"the result of another cell ({fingerprint[:8]}) lies here"
        if not self._quick and self._is_whole(folder):
            return "outdated", "a whole result of this cell, and not the one that the ledger has"
        return "damaged", f"{names.CELL} is not the one that the ledger took"

    def _is_whole(self, folder: Path) -> bool:
        """Whether a result is as it was sealed, whatever the ledger has."""
        try:
            content, _ = sealed(folder)
            wrong = [*self._wrong_files(folder, content["files"])]
            return not wrong and not [*wrong_content(folder, content, content["metrics"])]
        except (LookupError, TypeError, ValueError, AttributeError):
            return False

    def _owner(self, folder: Path) -> str:
        """The fingerprint that a folder says it has; ``""`` for none."""
        try:
            return str(sealed(folder)[0]["fingerprint"])
        except ResultsError:
            return ""

    def unknown(self) -> Iterator[Finding]:
        """The results that lie where the ledger has no cell."""
        root = self._layout.root
        above = {parent for path in self._records for parent in folders_above(path)}
        folders = [root]
        for folder in folders:
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue  # `look` reports it for a cell's folder
            for entry in entries:
                path = os.path.relpath(entry.path, root)
                if entry.name.startswith(".") or path in self._records:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if path in above or not os.path.lexists(f"{entry.path}/{names.CELL}"):
                    folders.append(Path(entry.path))
                else:
                    yield Finding(kind="unknown", path=path, message=self._what_is(Path(entry)))

    def _what_is(self, folder: Path) -> str:
        path = folder.relative_to(self._layout.root).as_posix()
        try:
            content, digest = sealed(folder)
            if owner := self._digests.get(digest):
                return f"the result of {owner.path}, or a copy of it"
            if wrong := damage(folder, content):
                return f"a damaged result that the ledger does not know: {wrong}"
            was = "" if content["path"] == path else f", sealed for {content['path']}"
            return f"a whole result that the ledger does not know{was}"
        except (ResultsError, LookupError, AttributeError, TypeError) as error:
            return f"a result that cannot be read: {error}"


def _exists(folder: Path) -> bool:
    """Whether something is there. Raises OSError where that cannot be seen."""
    try:
        os.lstat(folder)
    except FileNotFoundError:
        return False
    return True


def _is_there(folder: Path, name: str) -> bool:
    file = folder / name
    packed = (
        () if name in names.REQUIRED_FILES else (f"{file}{PACKED_SUFFIX}", f"{file}{TAKEN_SUFFIX}")
    )
    for one in (file, *packed):
        try:
            return S_ISREG(os.lstat(one).st_mode)
        except FileNotFoundError:
            continue
    return False


def _content(folder: Path) -> tuple[list[str], list[str]]:
    """The files below a folder, and what is neither file nor folder."""
    plain: list[str] = []
    other: list[str] = []
    folders = [folder]
    for part in folders:
        for entry in os.scandir(part):
            mode = entry.stat(follow_symlinks=False).st_mode
            if S_ISDIR(mode):
                folders.append(Path(entry.path))
            else:
                kind = plain if S_ISREG(mode) else other
                kind.append(os.path.relpath(entry.path, folder))
    return plain, sorted(other)
