"""NLTK's data files, which some tasks read: from a folder of the user's, or from this host."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchfleet.download import Download
from benchfleet.host_lock import lock_file, locked
from benchfleet.reachability import unreachable

_HOST = "raw.githubusercontent.com"
_SYSTEM_FOLDERS = ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")


@dataclass(frozen=True)
class NltkData(Download):
    """A resource of NLTK, such as ``tokenizers/punkt_tab``."""

    kind: ClassVar[str] = "file"

    resource: str

    def __str__(self) -> str:
        return f"NLTK's {self.resource}"

    def fetch(self, environ: Mapping[str, str]) -> None:
        """Into the first of NLTK's folders. Raises OSError if it cannot be had."""
        if self.is_here(environ):
            return
        if reason := self.unreachable_message(environ):
            raise OSError(reason)
        import nltk

        name = Path(self.resource).name
        with locked(lock_file(f"nltk-{name}", environ)):
            if not self.is_here(environ) and not nltk.download(name, quiet=True):
                raise OSError(f"{self} cannot be fetched; {self.command()} says why")

    def command(self) -> str:
        """What fetches it on a host with a network."""
        return f"python -m nltk.downloader {Path(self.resource).name}"

    def missing_message(self, environ: Mapping[str, str]) -> str:
        """What to do where it is not on this host and must not be fetched; ``""`` otherwise."""
        return ""  # no variable forbids it

    def unreachable_message(self, environ: Mapping[str, str]) -> str:
        """What to do where it is not on this host and cannot be fetched; ``""`` otherwise."""
        if self.is_here(environ) or not unreachable(_HOST, 443):
            return ""
        return (
            f"{self} is not on this host, and {_HOST} cannot be reached: fetch it where there is "
            f"a network ({self.command()}), or copy it to nltk_data in the folder of 'data'"
        )

    def local_files(self, folder: Path) -> list[Path]:
        """Its files below a folder of data sets; none where this host has it anyhow. Raises
        ValueError where neither has it."""
        for base in (folder / "nltk_data", folder):
            path = base / self.resource
            archive = path.with_name(f"{path.name}.zip")
            if path.is_dir():
                return sorted(file for file in path.rglob("*") if file.is_file())
            if archive.is_file():
                return [archive]
        if self.is_here(os.environ):
            return []
        raise ValueError(
            f"data: {folder} holds no nltk_data/{self.resource}; copy it there "
            f"({self.command()} brings it to ~/nltk_data)"
        )

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Whether this host has it."""
        paths = [folder / self.resource for folder in host_folders(environ)]
        return any(p.exists() or p.with_name(f"{p.name}.zip").exists() for p in paths)


def host_folders(environ: Mapping[str, str]) -> list[Path]:
    """Where NLTK looks, read without importing it."""
    named = [Path(part) for part in environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    prefix = Path(sys.prefix)
    own = [prefix, prefix / "share", prefix / "lib", *map(Path, _SYSTEM_FOLDERS)]
    return [*named, Path("~/nltk_data").expanduser(), *(folder / "nltk_data" for folder in own)]


@contextmanager
def nltk_from(folder: Path | None) -> Iterator[None]:
    """NLTK also looks in this folder of data sets, and fetches nothing where one is given."""
    if folder is None:
        yield
        return
    import nltk

    paths, download = list(nltk.data.path), nltk.download
    nltk.data.path[:0] = [str(folder / "nltk_data"), str(folder)]
    nltk.download = lambda *_, **__: False  # some tasks fetch when they are imported
    try:
        yield
    finally:
        nltk.data.path[:], nltk.download = paths, download
