"""A model in a GGUF file: its identity, and where it is on this host."""

from __future__ import annotations

from pathlib import Path

from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models.digest import files_digest
from benchfleet.models.fetch import check_current


def gguf_digest(source: str) -> str:
    """The digest of the file's content. Raises ValueError if there is no such file."""
    file = Path(source).expanduser()
    if not file.is_file():
        raise ValueError(f"{file} is not a file; give the path of a .gguf file")
    return files_digest(file)


def gguf_file(model: Model) -> Path:
    """The file on this host. Raises CellFailure if it is not there, or has changed."""
    file = Path(model.source).expanduser()
    if not file.is_file():
        message = f"{file} is not on this host; copy it there"
        raise CellFailure(stage="load", kind="model_not_found", message=message)
    check_current(str(file), model.digest, gguf_digest(model.source))
    return file
