"""A relocatable Python in an archive, as one is sent to hosts that have none: our own, repacked."""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
from pathlib import Path

_LEFT_OUT = {"site-packages", "dist-packages", "test", "idlelib", "tkinter", "__pycache__"}


def make_archive(file: Path) -> Path:
    """Write the archive, whose interpreter is ``python/bin/python3``."""
    library = Path(sysconfig.get_path("stdlib"))

    def wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        name = os.path.basename(entry.name)
        return None if name in _LEFT_OUT or name.startswith("config-") else entry

    with tarfile.open(file, "w:gz", compresslevel=1, dereference=True) as archive:
        archive.add(os.path.realpath(sys.executable), "python/bin/python3")
        archive.add(library, f"python/lib/{library.name}", filter=wanted)
    return file
