"""Bare repositories of a test's own, made without a process and without waiting for the disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = true
\tfsync = none
[receive]
\tautogc = false
[http]
\treceivepack = true
"""


def make_bare(folder: Path) -> Path:
    """An empty bare repository, as ``git init --bare`` makes one."""
    for name in ("objects", "refs", "hooks"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(_CONFIG)
    return folder


def git(folder: Path, *arguments: str) -> str:
    """What a command of git's says."""
    output = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)
    return output.stdout.decode()
