"""The files of a user's own that a benchmark is made of: which they are, and their digest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import filter as matching
from fnmatch import fnmatchcase
from itertools import dropwhile, takewhile
from pathlib import Path, PurePath

from benchfleet.benchmarks.template_fields import has_field
from benchfleet.domain.canonical import content_digest
from benchfleet.file_digest import file_digest

_MAGIC = re.compile(r"[*?[]")
_INTERPRETER = re.compile(r"(python|pypy)[\d.]*|bash|sh|zsh|perl|ruby|node|julia|Rscript|lua[\d.]*")
_SWITCH = re.compile(r"-[bBdEIOPqsSuvx]+")  # of Python, without a value
_SCRIPTS = frozenset({".py", ".sh", ".bash", ".pl", ".rb", ".js", ".mjs", ".jl", ".r", ".lua"})
_ATTEMPTS = ".attempts"  # the results folder of a campaign has one


def missing_script(argv: Sequence[str], folder: Path) -> str:
    """The script that an interpreter is to run in `folder` and that is surely not there, or ``""``:
    its first argument, as a relative path that does not leave the folder."""
    command, *rest = argv
    name = PurePath(command).name
    if not _INTERPRETER.fullmatch(name):
        return ""
    if name.startswith(("python", "pypy")):
        rest = [*dropwhile(_SWITCH.fullmatch, rest)]
    script = PurePath(rest[0] if rest else "")
    is_plain = script.suffix.lower() in _SCRIPTS and not str(script).startswith("-")
    if not is_plain or script.is_absolute() or ".." in script.parts or has_field(str(script)):
        return ""
    return "" if (folder / script).exists() else str(script)


def matching_files(folder: Path, patterns: Sequence[str], key: str = "files") -> list[Path]:
    """The files in `folder` that the patterns of this key name; ``**`` stands for no folder of
    campaigns' results. Raises ValueError for a pattern that names none."""
    paths: list[Path] = []
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise ValueError(f"files are taken from the campaign's folder; {pattern!r} leaves it")
        matches = dict.fromkeys(_matches(folder, pattern))
        files = [file for file in matches if file.is_file() and is_source(file)]
        if not files:
            raise ValueError(f"{key}: nothing matches {pattern!r} in {folder}")
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
    parts = PurePath(pattern).parts
    if "**" not in parts or any("**" in part and part != "**" for part in parts):
        yield from folder.glob(pattern)  # which says what is wrong with it
        return
    plain = list(takewhile(lambda part: not _MAGIC.search(part), parts))
    base, rest = folder.joinpath(*plain), parts[len(plain) :]
    for parent, _, names in _walk(base):
        for name in names:
            file = Path(parent, name)
            if rest[-1] != "**" and _fits(file.relative_to(base).parts, rest):
                yield file


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path is one that a pattern names, part by part; ``**`` names any number."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[count:], pattern[1:]) for count in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _walk(base: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder with its folders and files, without results of campaigns below the first; links
    are not followed."""
    for parent, folders, names in os.walk(base, onerror=_raise_unless_gone):
        if _ATTEMPTS in folders and Path(parent) != base:
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
