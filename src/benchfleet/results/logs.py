"""The log of one attempt, wherever it lies: at work, published, compressed or archived."""

from __future__ import annotations

import codecs
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.attempt import CellRecord
from benchfleet.results import layout as names
from benchfleet.results.archive import archived_attempts
from benchfleet.results.disk import PACKED_SUFFIX, open_plain, taken_note, unpacked
from benchfleet.results.layout import Layout
from benchfleet.results.read import is_published
from benchfleet.results.samples import age

_PIECE = 2**16


@dataclass(frozen=True, kw_only=True)
class Log:
    """Where a log lies."""

    file: Path
    inside: str = ""  # its name in an archive; "" where it lies by itself

    def pieces(self) -> Iterator[bytes]:
        """What it holds. Raises OSError or tarfile.TarError."""
        if self.inside:
            with tarfile.open(self.file) as tar:
                member = tar.extractfile(self.inside)
                while member is not None and (piece := member.read(_PIECE)):
                    yield piece
        elif self.file.suffix == PACKED_SUFFIX:
            yield from unpacked(self.file)
        else:
            with open(open_plain(self.file), "rb") as opened:
                while piece := opened.read(_PIECE):
                    yield piece


def log_of(layout: Layout, record: CellRecord, name: str, *, last: bool) -> Log | None:
    """The log of the attempt that is called ``<attempt>-<token>``, the cell's last one or not;
    None where it is not here."""
    candidates = [log / names.LOG for log in layout.attempts_called(record.fingerprint, name)[:1]]
    if last and record.state == "success":
        digest = record.outcome.digest if record.outcome else ""
        first = is_published(layout, record.path, digest)  # another's attempt may be called so
        candidates.insert(0 if first else 1, layout.published(record.path) / names.LOG)
    for log in candidates:
        for file in (log, log.with_name(f"{log.name}{PACKED_SUFFIX}")):
            if file.is_file() and not file.is_symlink():
                return Log(file=file)
        try:
            moved = Path(str(taken_note(log).get("to", "")))
        except OSError:
            continue
        return Log(file=moved) if moved.is_file() else None
    archived = archived_attempts(layout, record.fingerprint)
    if packed := [one for one in archived if one.partition(".")[0] == name]:
        last_one = max(packed, key=lambda one: age(Path(one)))
        return Log(file=archived[last_one], inside=f"{last_one}/{names.LOG}")
    return None


def lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines of a log, the longest in parts; of one that was written over, as progress bars
    do, what it ended as. A last line without an end counts."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        yield from map(_ended_as, whole)
        if len(rest) > _PIECE:
            yield _ended_as(rest)
            rest = ""
    if rest := rest + decoder.decode(b"", True):
        yield _ended_as(rest)


def _ended_as(line: str) -> str:
    parts = [part for part in line.split("\r") if part]
    return parts[-1].expandtabs() if parts else ""


class Tail:
    """What comes to the log of an attempt, also while its folder moves to its public path."""

    def __init__(self) -> None:
        self._offset, self._rest = 0, b""

    def new_lines(self, log: Log, *, last: bool) -> list[str]:
        """The lines that are whole since it was asked before; at the last time also one without an
        end. Raises OSError or tarfile.TarError."""
        new = self._rest + b"".join(self._beyond(log))
        whole = len(new) if last else new.rfind(b"\n") + 1
        self._rest = new[whole:]
        return list(lines([new[:whole]]))

    def _beyond(self, log: Log) -> Iterator[bytes]:
        """The content after the offset that was read."""
        if not log.inside and log.file.suffix != PACKED_SUFFIX:
            with open(open_plain(log.file), "rb") as opened:
                opened.seek(self._offset)
                while piece := opened.read(_PIECE):
                    self._offset += len(piece)
                    yield piece
            return
        seen = 0
        for piece in log.pieces():
            yield piece[max(0, self._offset - seen) :]
            seen += len(piece)
        self._offset = max(seen, self._offset)
