"""Files that attention steps read: their digests are part of a cell's identity."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchfleet.domain.attention_step import AttentionStep
from benchfleet.file_digest import file_digest


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file's content. Raises OSError."""
    return f"sha256:{file_digest(path)}"


def check_files(steps: Iterable[AttentionStep]) -> None:
    """Raise ValueError where a file is not what it was when the campaign was read."""
    for step in steps:
        for name, digest in step.digests.items():
            path = Path(str(step.params[name]))
            try:
                same = digest_of_file(path) == digest
            except OSError as error:
                raise ValueError(f"{step.name}: cannot read {path}: {error.strerror}") from error
            if not same:
                raise ValueError(
                    f"{step.name}: {path} has changed since the campaign was read; run it again"
                )
