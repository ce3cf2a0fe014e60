"""Servers that tests start end with them, however those end."""

from __future__ import annotations

import subprocess


def ends_with_us(act: str) -> subprocess.Popen[bytes]:
    """A shell that does this once its input is closed: by whoever has it, or as we end."""
    return subprocess.Popen(
        ["sh", "-c", f"cat; {act}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
