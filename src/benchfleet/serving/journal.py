"""The journal of a load client: what it read and when, as bytes that others parse.

An entry is a line of JSON, then, for a request, the bytes that it read, then a newline. An entry
that a killed client left unfinished is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry: its fields, and the pieces of a request's answer."""

    fields: Mapping[str, Any]
    pieces: Sequence[bytes] = ()


def encode(fields: Mapping[str, Any], pieces: Sequence[bytes] = ()) -> bytes:
    """An entry as bytes."""
    head = {**fields, "sizes": [len(piece) for piece in pieces]} if pieces else fields
    return b"".join((json.dumps(head, separators=(",", ":")).encode(), b"\n", *pieces, b"\n"))


class JournalReader:
    """Reads a journal while it is written."""

    def __init__(self, file: Path) -> None:
        self._file, self._rest = file, b""
        self._opened: BinaryIO | None = None

    def read(self) -> Iterator[Entry]:
        """The entries that were completed since the last call."""
        if self._opened is None:
            try:
                self._opened = open(self._file, "rb")  # noqa: SIM115 - until `close`
            except FileNotFoundError:
                return
        data, at = self._rest + self._opened.read(), 0
        while (end := data.find(b"\n", at)) >= 0:
            fields = json.loads(data[at:end])
            sizes = fields.pop("sizes", ())
            begin, after = end + 1, end + 1 + sum(sizes)
            if len(data) <= after:  # its last newline is not there yet
                break
            pieces = []
            for size in sizes:
                pieces.append(data[begin : begin + size])
                begin += size
            at = after + 1
            yield Entry(fields=fields, pieces=pieces)
        self._rest = data[at:]

    def close(self) -> None:
        """Read no more."""
        if self._opened is not None:
            self._opened.close()
