"""A file of another place than the hub that a task reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchfleet.environment import own_cache

from .dataset import unreachable


@dataclass(frozen=True)
class UrlFile:
    """A file at an address."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    def cached(self, environ: Mapping[str, str]) -> Path:
        """Where `benchfleet fetch` keeps it."""
        return own_cache(environ) / "files" / self.name

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Whether this host has it."""
        return self.cached(environ).is_file()

    def command(self) -> str:
        """What fetches it on a host with a network."""
        return f"curl -LO {self.url}"

    def missing_message(self, environ: Mapping[str, str]) -> str:
        """What to do where it is not on this host and must not be fetched; ``""`` otherwise."""
        return ""  # no variable forbids it

    def unreachable_message(self, environ: Mapping[str, str]) -> str:
        """What to do where it is not on this host and cannot be fetched; ``""`` otherwise."""
        host = self.url.partition("://")[2].partition("/")[0]
        if self.is_here(environ) or not unreachable(host, 443):
            return ""
        return (
            f"{self.name} is not on this host, and {host} cannot be reached: fetch it where there "
            f"is a network ({self.command()}), or copy it to the folder of 'data'"
        )

    def local_files(self, folder: Path) -> list[Path]:
        """It below a folder of data sets. Raises ValueError where it is not there."""
        for file in sorted(folder.rglob(self.name)):
            return [file]
        raise ValueError(f"data: {folder} holds no {self.name}; copy it there ({self.command()})")
