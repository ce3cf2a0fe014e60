"""Compares downloaded files of the hub with the digests that the hub declared.

The local cache names each file by its digest: SHA-256 for large files, git's object id for others.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_SHA256 = re.compile("[0-9a-f]{64}")
_GIT_ID = re.compile("[0-9a-f]{40}")
_BLOCK_BYTES = 2**20


def remove_damaged_files(snapshot: Path) -> list[str]:
    """Remove the files of a snapshot that do not have their digest, so that the next fetch brings
    them again; their names."""
    damaged = []
    for link in sorted(snapshot.rglob("*")):
        blob = link.resolve()
        if link.is_symlink() and blob.is_file() and not _is_intact(blob):
            blob.unlink()
            link.unlink()
            damaged.append(link.relative_to(snapshot).as_posix())
    return damaged


def _is_intact(blob: Path) -> bool:
    """Whether the content has the digest of its name; True for any other name."""
    if _SHA256.fullmatch(blob.name):
        digest = hashlib.sha256()
    elif _GIT_ID.fullmatch(blob.name):
        digest = hashlib.sha1(f"blob {blob.stat().st_size}\0".encode(), usedforsecurity=False)
    else:
        return True
    with blob.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest() == blob.name
