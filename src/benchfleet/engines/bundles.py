"""The files that a cell needs on the host where it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Kind
from benchfleet.errors import BenchfleetError


class ProvisionFailed(BenchfleetError):
    """The files that a cell needs cannot be sent to its host."""

    def __init__(self, message: str, *, kind: Kind = "error") -> None:
        self.kind = kind
        super().__init__(message)


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Files that a host must have before a cell can run there."""

    name: str  # where they go, under the host's folder
    model: Path | None = None  # a whole folder, or one file that goes into a folder of its own; or
    files: tuple[Path, ...] = ()  # single files, under their whole path; folders are made empty


def model_bundle(cell: Cell) -> Bundle | None:
    """The folder or the file of the cell's model; None where its source is neither here."""
    model = cell.model
    path = Path(model.source).expanduser()
    is_here = path.is_dir() or (path.is_absolute() and path.is_file())
    if not model.source or not is_here:
        return None
    return Bundle(name=f"models/{short_digest(model.digest)}", model=path.absolute())


def files_bundle(cell: Cell) -> Bundle | None:
    """The files of the user's own that its benchmark reads; None where there are none. Raises
    ProvisionFailed where they cannot be read."""
    work = cell.workload
    if not work.data_digest:
        return None
    try:
        paths = benchmark_class(work.benchmark)({**work.params, **work.outside}).files(work.subset)
        files = tuple(dict.fromkeys(Path(os.path.abspath(file)) for file in paths))  # each once
        # A declared identity stays the same when the files change; their state does not.
        state = [_state(file) for file in files] if "identity" in work.outside else []
    except (ValueError, OSError) as error:
        raise ProvisionFailed(f"{work.name}: {error}", kind="user_error") from error
    if not files:
        return None
    name = content_digest([work.data_digest, [str(file) for file in files], *state])
    return Bundle(name=f"files/{short_digest(name)}", files=files)


def relocated(cell: Cell, *, model: str, files: str) -> Cell:
    """The same cell, with its model at `model` and its files under `files`; ``""`` leaves either
    as it is. Its fingerprint stays: paths are no part of it."""
    if model:
        cell = replace(cell, model=replace(cell.model, source=model))
    if files:
        outside = {name: _under(files, value) for name, value in cell.workload.outside.items()}
        cell = replace(cell, workload=replace(cell.workload, outside=outside))
    return cell


def short_digest(text: str) -> str:
    """One part of a path, whatever `text` holds."""
    return content_digest(text)[:16]


def _state(file: Path) -> list[int]:
    """Changes whenever the file is written."""
    seen = file.stat()
    return [] if file.is_dir() else [seen.st_mtime_ns, seen.st_size]


def _under(root: str, value: object) -> object:
    if isinstance(value, str) and os.path.isabs(expanded := os.path.expanduser(value)):
        return root + os.path.abspath(expanded)
    return value
