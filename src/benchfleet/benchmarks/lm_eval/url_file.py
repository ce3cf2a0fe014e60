"""A file of another place than the hub that a task reads."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.request import Request, urlopen, urlretrieve

from benchfleet.download import Download
from benchfleet.environment import own_cache
from benchfleet.host_lock import lock_file, locked
from benchfleet.reachability import unreachable

_SIZE_TIMEOUT_S = 1.5


@dataclass(frozen=True)
class UrlFile(Download):
    """A file at an address."""

    kind: ClassVar[str] = "file"

    url: str

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    def cached(self, environ: Mapping[str, str]) -> Path:
        """Where this host keeps it once it was fetched."""
        return own_cache(environ) / "files" / self.name

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Whether this host has it."""
        return self.cached(environ).is_file()

    def size(self, environ: Mapping[str, str]) -> int | None:
        request = Request(self.url, method="HEAD")  # noqa: S310 - addresses of this package
        try:
            with urlopen(request, timeout=_SIZE_TIMEOUT_S) as answer:  # noqa: S310 - as above
                return int(answer.headers["Content-Length"])
        except (OSError, TypeError, ValueError):
            return None

    def fetch(self, environ: Mapping[str, str]) -> None:
        if reason := self.unreachable_message(environ):
            raise OSError(reason)
        file = self.cached(environ)
        with locked(lock_file(f"file-{self.name}", environ)):
            if not file.is_file():
                fetch(self.url, file)

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


def fetch(url: str, file: Path) -> None:
    """Keep what lies at an address in a file, whole or not at all. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        urlretrieve(url, part)  # noqa: S310 - addresses of this package
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
