"""Writing exported files."""

from __future__ import annotations

import os
from pathlib import Path

from benchfleet.errors import ExportError


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that a reader sees it whole or not at all. Raises `ExportError`."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(content)
        draft.replace(file)
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror or error}") from error
