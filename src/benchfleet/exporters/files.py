"""Writing exported files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchfleet.errors import ExportError


def write_whole(file: Path, content: bytes | Path) -> None:
    """Write a file so that a reader sees it whole or not at all. Raises `ExportError`.

    A path is of a file to copy.
    """
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, draft)
        else:
            draft.write_bytes(content)
        draft.replace(file)
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror or error}") from error
