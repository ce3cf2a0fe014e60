"""What every result should say of where and by what it was made."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import benchfleet
from benchfleet.environment import child_environment
from benchfleet.errors import DeviceError
from benchfleet.machines.nvml import open_nvml


def provenance(folder: Path | None) -> dict[str, Any]:
    """Versions, the operating system, and the git commit that `folder` is at, if it is at one."""
    return {
        "benchfleet": benchfleet.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "driver": driver_version(),
        "git": _git(folder) if folder else None,
    }


def _git(folder: Path) -> dict[str, Any] | None:
    """The commit and whether tracked files differ from it; None outside a repository."""
    try:
        commit = _ask_git(folder, "rev-parse", "HEAD")
        changed = _ask_git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "changed": bool(changed)}


def _ask_git(folder: Path, *words: str) -> str:
    process = subprocess.run(
        ["git", "-C", str(folder), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
        env=child_environment(),
    )
    return process.stdout.strip()


def driver_version() -> str:
    """The NVIDIA driver's version; ``""`` where there is none."""
    try:
        with open_nvml() as nvml:
            return nvml.driver()
    except DeviceError:
        return ""
