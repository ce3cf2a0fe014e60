"""What a host keeps of models and files sent to it: the far end of `cargo`.

Run there as ``receive(root, name)``. A thing lies at ``<root>/<name>`` once it is whole, and
whoever else wants it meanwhile waits for the lock, which the kernel frees when its holder dies.

It says ``have <path>``, or ``want <path> rsync|tar`` and then reads one line: ``tar``, followed by
an archive, or ``rsynced``, once the files were put at that path with ``.part`` behind it; empty
lines before that say that the sender is still there, and one that is silent for `SILENCE` is given
up. Then it says ``have``. The last entry of an archive is named `END`: one that its sender did not
finish may else look as if it were whole.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

END = "/"  # a name that no file in an archive has
SILENCE = 60.0  # seconds
_GONE = "the sender went away before all was here"


def receive(root: str, name: str) -> None:
    """Take in one thing, unless it is here already."""
    place = Path(os.path.abspath(Path(root).expanduser() / name))
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _take(place)
    print(f"have {place}", flush=True)


def _take(place: Path) -> None:
    print(f"want {place} {'rsync' if shutil.which('rsync') else 'tar'}", flush=True)
    part = Path(f"{place}.part")
    sender = _Sender(sys.stdin.fileno())
    how = sender.line()
    if how == b"tar":
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        _unpack(sender, part)
    elif how != b"rsynced" or not part.is_dir():
        raise SystemExit(_GONE)
    os.sync()
    part.rename(place)


class _Sender:
    """What the sender says, as long as it says something: a connection that is gone may not be
    told of for hours, and the lock is held meanwhile."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end. Raises SystemExit where it fell silent."""
        if not select.select([self._handle], [], [], SILENCE)[0]:
            raise SystemExit(_GONE)
        return os.read(self._handle, size)

    def line(self) -> bytes:
        """The next line that is not empty; nothing at the end."""
        line = b""
        while piece := self.read(1):
            if piece != b"\n":
                line += piece
            elif line:
                break
        return line


def _unpack(stream: _Sender, folder: Path) -> None:
    """Files and folders alone, and none outside of `folder`. Raises ReadError or SystemExit for
    an archive that ends early."""
    whole = False
    with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|") as archive:
        for member in archive:
            if whole := member.name == END:
                continue
            parts = PurePosixPath(member.name).parts
            if ".." in parts or member.name.startswith("/"):
                raise SystemExit(f"{member.name!r} would leave the store")
            place = folder.joinpath(*parts)
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
            elif member.isfile() and (content := archive.extractfile(member)) is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                with open(place, "xb") as file:
                    shutil.copyfileobj(content, file, 2**20)
                place.chmod(member.mode & 0o755 | 0o600)
    if not whole:
        raise SystemExit(_GONE)
