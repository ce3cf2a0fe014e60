"""Parts of a cell's log: its last lines, and what lies before a position; bounded in bytes."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass

from benchfleet.results.disk import PACKED_SUFFIX, open_plain
from benchfleet.results.logs import Log, lines

MAX_CHUNK_BYTES = 256 * 1024
MAX_LINES = 2_000
MAX_UNPACKED_BYTES = 64 * 1024 * 1024  # of a packed log, which is read from its begin


@dataclass(frozen=True, kw_only=True)
class LogPart:
    """Some lines of a log; `begin` and `end` are positions in bytes."""

    lines: Sequence[str]
    begin: int
    end: int
    size: int  # of the whole log; of a packed one as far as it was read


def last_lines(log: Log) -> LogPart:
    """The end of a log. Raises OSError."""
    return part_before(log, None)


def part_before(log: Log, end: int | None) -> LogPart:
    """The lines that end at a position, None for the end of the log. Raises OSError."""
    if _is_packed(log):
        content = _unpacked(log)
        size = len(content)
        end = size if end is None else min(end, size)
        begin = max(0, end - MAX_CHUNK_BYTES)
        return _part(content[begin:end], begin, end, size)
    with open(open_plain(log.file), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = size if end is None else max(0, min(end, size))
        begin = max(0, end - MAX_CHUNK_BYTES)
        file.seek(begin)
        return _part(file.read(end - begin), begin, end, size)


def part_after(log: Log, begin: int) -> LogPart:
    """The whole lines that came after a position. Raises OSError."""
    if _is_packed(log):
        return part_before(log, None)
    with open(open_plain(log.file), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        begin = min(max(0, begin), size)
        file.seek(begin)
        content = file.read(MAX_CHUNK_BYTES)
    content = content[: content.rfind(b"\n") + 1]
    return LogPart(lines=list(lines([content])), begin=begin, end=begin + len(content), size=size)


def _part(content: bytes, begin: int, end: int, size: int) -> LogPart:
    if begin:  # the first line is cut
        cut = content.find(b"\n") + 1
        content, begin = content[cut:], begin + cut
    pieces = content.split(b"\n")
    if len(pieces) - 1 > MAX_LINES:
        dropped = b"\n".join(pieces[: len(pieces) - 1 - MAX_LINES]) + b"\n"
        content, begin = content[len(dropped) :], begin + len(dropped)
    return LogPart(lines=list(lines([content])), begin=begin, end=end, size=size)


def _is_packed(log: Log) -> bool:
    return bool(log.inside) or log.file.suffix == PACKED_SUFFIX


def _unpacked(log: Log) -> bytes:
    content = bytearray()
    try:
        for piece in log.pieces():
            content += piece
            if len(content) > MAX_UNPACKED_BYTES:
                break
    except (tarfile.TarError, KeyError) as error:
        raise OSError(f"the archive cannot be read: {error}") from error
    return bytes(content)
