"""The files that a cell needs on the host where it runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Kind
from benchfleet.errors import BenchfleetError
from benchfleet.models.base import adapter_class


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
    label: str = ""  # what they are, in messages
    digest: str = ""  # of their content when the campaign was read
    digest_now: Callable[[], str] = field(default=str, compare=False)

    def check(self) -> None:
        """Raise ProvisionFailed if the files have changed since the campaign was read."""
        try:
            now = self.digest_now()
        except (ValueError, OSError) as error:
            raise ProvisionFailed(f"{self.label}: {error}", kind="user_error") from error
        if now != self.digest:
            message = f"{self.label} has changed since the campaign was read; run it again"
            raise ProvisionFailed(message, kind="user_error")


def model_bundle(cell: Cell) -> Bundle | None:
    """The folder or the file of the cell's model; None where its source is neither here."""
    model = cell.model
    path = Path(model.source).expanduser()
    is_here = path.is_dir() or (path.is_absolute() and path.is_file())
    if not model.source or not is_here:
        return None
    kwargs = {**model.model_kwargs, **model.outside}
    return Bundle(
        name=f"models/{short_digest(model.digest)}",
        model=path.absolute(),
        label=model.source,
        digest=model.digest,
        digest_now=lambda: adapter_class(model.adapter).identify(model.source, kwargs),
    )


def files_bundle(cell: Cell) -> Bundle | None:
    """The files of the user's own that its benchmark reads; None where there are none. Raises
    ProvisionFailed where they cannot be read."""
    work = cell.workload
    if not work.data_digest:
        return None
    try:
        benchmark = benchmark_class(work.benchmark)({**work.params, **work.outside})
        paths = benchmark.files(work.subset)
        files = tuple(dict.fromkeys(Path(os.path.abspath(file)) for file in paths))  # each once
        # A declared identity stays the same when the files change; their state does not.
        state = [_state(file) for file in files] if "identity" in work.outside else []
    except (ValueError, OSError) as error:
        raise ProvisionFailed(f"{work.name}: {error}", kind="user_error") from error
    if not files:
        return None
    name = content_digest([work.data_digest, [str(file) for file in files], *state])
    return Bundle(
        name=f"files/{short_digest(name)}",
        files=files,
        label=work.name,
        digest=work.data_digest,
        digest_now=lambda: benchmark.data_digest(work.subset),
    )


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
