"""The SHA-256 of files, piece by piece."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

_PIECE_BYTES = 2**20


class Readable(Protocol):
    """What can be read in pieces."""

    def read(self, size: int, /) -> bytes: ...


def stream_digest(stream: Readable) -> str:
    """The SHA-256 of the rest of a stream, in hexadecimal."""
    digest = hashlib.sha256()
    while piece := stream.read(_PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def file_digest(file: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal. Raises OSError."""
    with file.open("rb") as stream:
        return stream_digest(stream)
