"""The receiving end of `provision`: stores the models and files sent to a host.

Runs there as ``receive(root, name)``. A bundle is at ``<root>/<name>`` once it is complete. Other
receivers of it wait for the lock, which the kernel frees when its holder dies.

The receiver writes ``have <path>``, or ``want <path> rsync|tar`` and then reads one line: ``tar``,
followed by an archive, or ``rsynced``, once the files are at ``<path>.part``. Empty lines before
that keep the connection alive; a sender that is silent for `SILENCE_S` is given up. Then the
receiver writes ``have``. The last entry of an archive is named `END`, since an archive that its
sender did not finish may else look complete.
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
SILENCE_S = 60.0
_SENDER_LOST = "the sender was lost before the end of the transfer"


def receive(root: str, name: str) -> None:
    """Receive one bundle, unless the host has it."""
    path = Path(os.path.abspath(Path(root).expanduser() / name))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{path}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _receive_new(path)
    print(f"have {path}", flush=True)


def _receive_new(path: Path) -> None:
    print(f"want {path} {'rsync' if shutil.which('rsync') else 'tar'}", flush=True)
    part = Path(f"{path}.part")
    sender = _Sender(sys.stdin.fileno())
    how = sender.line()
    if how == b"tar":
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        _unpack(sender, part)
    elif how != b"rsynced" or not part.is_dir():
        raise SystemExit(_SENDER_LOST)
    os.sync()
    part.rename(path)


class _Sender:
    """The sender's stream, with a timeout: a broken connection may stay unnoticed for hours, and
    the lock is held meanwhile."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end. Raises SystemExit where it fell silent."""
        if not select.select([self._handle], [], [], SILENCE_S)[0]:
            raise SystemExit(_SENDER_LOST)
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
    """Unpack files and folders only, and only into `folder`. Raises ReadError or SystemExit for an
    archive that ends early."""
    complete = False
    with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|") as archive:
        for member in archive:
            if complete := member.name == END:
                continue
            parts = PurePosixPath(member.name).parts
            if ".." in parts or member.name.startswith("/"):
                raise SystemExit(f"{member.name!r} would leave the store")
            path = folder.joinpath(*parts)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif member.isfile() and (content := archive.extractfile(member)) is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(path, "xb") as file:
                    shutil.copyfileobj(content, file, 2**20)
                path.chmod(member.mode & 0o755 | 0o600)
    if not complete:
        raise SystemExit(_SENDER_LOST)
