"""The files of a user's own that a benchmark is made of: which they are, and their digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import filter as matching
from pathlib import Path

from benchfleet.domain.canonical import content_digest

_ATTEMPTS = ".attempts"  # the results folder of a campaign has one


def matching_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files in `folder` that the patterns name; ``**`` stands for no folder of campaigns'
    results. Raises ValueError for a pattern that names none."""
    paths: list[Path] = []
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise ValueError(f"files are taken from the campaign's folder; {pattern!r} leaves it")
        matches = dict.fromkeys(_matches(folder, pattern))
        files = [file for file in matches if file.is_file() and is_source(file)]
        if not files:
            raise ValueError(f"files: nothing matches {pattern!r} in {folder}")
        paths += files
    return paths


def files_below(folder: Path, pattern: str) -> list[Path]:
    """The files below a folder whose names match, by path: those of hidden folders and of
    campaigns' results left out. What goes meanwhile is left out as well. Raises OSError."""
    files: list[Path] = []
    for parent, folders, names in _walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += (Path(parent, name) for name in matching(names, pattern))
    return sorted(files, key=Path.as_posix)


def _matches(folder: Path, pattern: str) -> Iterator[Path]:
    """As Path.glob, which raises if a folder goes meanwhile, as that of a running cell does."""
    above, recursive, rest = pattern.partition("**/")
    if not recursive:
        yield from folder.glob(pattern)
        return
    for base in folder.glob(above) if above else [folder]:
        for parent, _, _ in _walk(base):
            with suppress(FileNotFoundError):
                yield from Path(parent).glob(rest)


def _walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder with its folders and files, but campaigns' results; links are not followed."""
    for parent, folders, names in os.walk(folder, onerror=_raise_unless_gone):
        if _ATTEMPTS in folders:
            folders.clear()
        else:
            yield parent, folders, names


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError, PermissionError)):
        raise error


def is_source(file: Path) -> bool:
    """Whether a file is somebody's own, not what Python made of it."""
    return "__pycache__" not in file.parts


def source_digest(folder: Path, files: Iterable[Path]) -> str:
    """The digest of the files' contents under their names within `folder`, in any order."""
    contents = {Path(os.path.relpath(file, folder)).as_posix(): file_digest(file) for file in files}
    return content_digest([[name, digest] for name, digest in sorted(contents.items())])


def file_digest(file: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    sha = hashlib.sha256()
    with file.open("rb") as stream:
        while piece := stream.read(2**20):
            sha.update(piece)
    return sha.hexdigest()
